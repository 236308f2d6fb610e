package etcdtests

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	readWrite = clientv3.PermissionType(clientv3.PermReadWrite)
	readOnly  = clientv3.PermissionType(clientv3.PermRead)
)

// withUsers is a cluster that asks for users.
func withUsers(t *testing.T, nodes int) *world {
	return newWorld(t, nodes, etcdcluster.Options{NoSync: true, RootPassword: "root-secret", AuthTokenTTL: 2 * time.Second})
}

func TestALoginThatIsRefusedFailsAtOnceInWords(t *testing.T) {
	t.Parallel()
	w := withUsers(t, 1)
	w.user("worker", "hunter2", readWrite)
	w.user("reader", "hunter2", readOnly)
	for url, why := range map[string]string{
		w.url("etcd", "worker:hunter3@", ""):                               `refuses the user "worker" or the password of the URL`,
		w.url("etcd", "nobody:hunter2@", ""):                               `refuses the user "nobody"`,
		w.url("etcd", "worker@", "password-file="+w.file("", "hunter3\n")): "The file is read again at each try",
		w.url("etcd", "", ""):                                              "asks for a user",
		w.url("etcd", "worker:hunter2@", "") + "2":                         "etcdctl role grant-permission --prefix=true ROLE readwrite w2/",
	} {
		_, err := authority.Open(w.long(), url)
		if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", url, err, why)
		}
		noSecret(t, err, "hunter2", "hunter3")
	}
	// Reading is allowed here, so opening works, and the first acquire says it.
	began := now()
	_, err := w.client(w.url("etcd", "reader:hunter2@", ""), stint.Options{}).Acquire(w.within(time.Minute), "job")
	if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), `does not let the user "reader"`) {
		t.Errorf("a user who may only read: %v", err)
	}
	if d := now().Sub(began); d > 30*time.Second {
		t.Errorf("it took %v to say so", d)
	}
}

// TestARoleForThePrefixIsEnough: what the documentation tells to grant is all
// that leases need.
func TestARoleForThePrefixIsEnough(t *testing.T) {
	t.Parallel()
	w := withUsers(t, 3)
	w.user("worker", "p@ss/w:rd", readWrite)
	a := w.open(w.url("etcd", "worker:p%40ss%2Fw%3Ard@", ""))
	o := calm
	c, d := w.client(w.url("etcd", "worker:p%40ss%2Fw%3Ard@", ""), o), w.client(w.url("etcd", "worker:p%40ss%2Fw%3Ard@", ""), o)
	l := w.lease(c, "job")
	waiting := make(chan leased, 1)
	go func() { l, err := d.Acquire(w.within(time.Minute), "job"); waiting <- leased{l, err} }()
	w.eventually("one holds and one waits", func() bool {
		s, err := a.Inspect(w.long(), "job")
		w.must(err)
		return s.Held && s.Waiters == 1
	})
	w.renewed(l, o)
	w.must(l.Release(w.long()))
	next := <-waiting
	w.must(next.err)
	names := 0
	for s, err := range a.(authority.Lister).List(w.long()) {
		w.must(err)
		if s.Name == "job" {
			names++
		}
	}
	if names != 1 || next.lease.Token() <= l.Token() {
		t.Errorf("listed %d times; token %d after %d", names, next.lease.Token(), l.Token())
	}
	w.must(next.lease.Release(w.long()))
}

// TestARotatedPasswordCostsNothing: whichever of server and file is changed
// first, no lease and no place in a line is lost, and nothing is restarted.
func TestARotatedPasswordCostsNothing(t *testing.T) {
	t.Parallel()
	w := withUsers(t, 1)
	w.user("worker", "first", readWrite)
	file := w.file("", "first\n")
	o := calm
	url := w.url("etcd", "worker@", "password-file="+file)
	c, d := w.client(url, o), w.client(url, o)
	l := w.lease(c, "job")
	waiting := make(chan leased, 1)
	go func() { l, err := d.Acquire(w.within(time.Minute), "job"); waiting <- leased{l, err} }()
	change := func(password string) {
		_, err := w.raw.UserChangePassword(w.long(), "worker", password)
		w.must(err)
	}
	change("second")
	w.file(file, "second\n")
	w.renewed(l, o)
	w.file(file, "third\n")
	w.renewed(l, o)
	change("third")
	w.renewed(l, o)
	w.works(c, "other")
	w.must(l.Release(w.long()))
	next := <-waiting
	w.must(next.err)
	if next.lease.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.lease.Token(), l.Token())
	}
}

// TestALeaseWhosePasswordIsWrongEndsInTime, and the client works again when the
// file is right.
func TestALeaseWhosePasswordIsWrongEndsInTime(t *testing.T) {
	t.Parallel()
	w := withUsers(t, 1)
	w.user("worker", "hunter2", readWrite)
	file := w.file("", "hunter2")
	c := w.client(w.url("etcd", "worker@", "password-file="+file), brief)
	l := w.lease(c, "job")
	_, err := w.raw.UserChangePassword(w.long(), "worker", "hunter3")
	w.must(err)
	w.ends(l, `etcd refuses the user "worker" or the password of the file `+file)
	noSecret(t, l.Err(), "hunter2", "hunter3")
	noSecret(t, w.refused(c, `refuses the user "worker"`), "hunter2", "hunter3")
	w.file(file, "hunter3")
	w.works(c, "job")
}

// TestALeaseWhoseRightIsTakenEndsInTime, and the client works again when it is
// given back.
func TestALeaseWhoseRightIsTakenEndsInTime(t *testing.T) {
	t.Parallel()
	w := withUsers(t, 1)
	w.user("worker", "hunter2", readWrite)
	c := w.client(w.url("etcd", "worker:hunter2@", ""), brief)
	l := w.lease(c, "job")
	p := w.prefix + "/"
	_, err := w.raw.RoleRevokePermission(w.long(), "role-worker", p, clientv3.GetPrefixRangeEnd(p))
	w.must(err)
	w.ends(l, "grant-permission")
	if err := w.refused(c, "grant-permission"); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("acquiring: %v does not match ErrBroken", err)
	}
	w.grant("worker", readWrite)
	w.works(c, "job")
}
