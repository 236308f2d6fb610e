package etcdtests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
)

// fill writes until etcd says that it is full, and stays so.
func (w *world) fill() {
	w.Helper()
	junk := string(bytes.Repeat([]byte("x"), 1<<18))
	for i := range 1000 {
		_, err := w.raw.Put(w.long(), fmt.Sprintf("junk/%d", i), junk)
		if errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) {
			return
		}
		w.must(err)
	}
	w.Fatal("etcd is not full")
}

// makeRoom is what the documentation tells to do.
func (w *world) makeRoom() {
	w.Helper()
	got, err := w.raw.Delete(w.long(), "junk/", clientv3.WithPrefix())
	w.must(err)
	_, err = w.raw.Compact(w.long(), got.Header.Revision, clientv3.WithCompactPhysical())
	w.must(err)
	_, err = w.raw.Defragment(w.long(), w.cluster.Endpoints()[0])
	w.must(err)
	_, err = w.raw.AlarmDisarm(w.long(), &clientv3.AlarmMember{})
	w.must(err)
}

// TestAFullEtcdKeepsWhatIsHeld: nothing new is granted, leases go on and can be
// given back, and when there is room all is as before.
func TestAFullEtcdKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true, Quota: 4 << 20})
	o := calm
	c := w.client(w.url("etcd", "", ""), o)
	l := w.lease(c, "job")
	other := w.lease(c, "other")
	w.fill()
	w.refused(c, "out of space (its alarm NOSPACE)")
	w.renewed(l, o)
	w.renewed(l, o)
	if err := other.Release(w.long()); err != nil {
		t.Errorf("a release needs no space: %v", err)
	}
	w.noKeys("other")
	w.makeRoom()
	w.works(c, "other")
	w.renewed(l, o)
	w.must(l.Release(w.long()))
	w.noKeys("job")
}

// TestAnUnansweredRequestToAFullEtcdHoldsUpNoRelease: what has become of it cannot
// be settled until there is room, and a release does not wait for that.
func TestAnUnansweredRequestToAFullEtcdHoldsUpNoRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true, Quota: 4 << 20})
	p := w.party()
	held := p.acquire(ask("held", lasting))
	waits := p.acquire(ask("other", lasting))
	w.fill()
	p.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/new/"), Kind: grpcfault.LoseRequest, Broken: true})
	unanswered := p.background(ask("new", lasting))
	w.eventually("a request is lost", func() bool { return p.layer.Struck() == 1 })
	w.must(p.auth.Release(w.long(), held))
	w.must(p.auth.Release(w.long(), waits))
	w.noKeys("held")
	select {
	case g := <-unanswered:
		t.Errorf("what was not settled was answered: %+v, %v", g.Grant, g.err)
	default:
	}
	w.makeRoom()
	w.must(p.auth.Release(w.long(), w.next(unanswered)))
	w.must(p.auth.Release(w.long(), p.acquire(ask("held", lasting))))
}

// TestAReleaseThatGoesWithACreateIsNotRefusedForIt: a full etcd refuses a whole
// request for one key in it.
func TestAReleaseThatGoesWithACreateIsNotRefusedForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true, Quota: 4 << 20})
	p := w.party()
	held := p.acquire(ask("held", lasting))
	w.fill()
	p.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/first/"), Kind: grpcfault.DelayRequest, Delay: 500 * time.Millisecond})
	creates := []<-chan granted{p.background(ask("first", lasting))}
	w.eventually("the first is on its way", func() bool { return p.layer.Struck() == 1 })
	released := make(chan error, 1)
	creates = append(creates, p.background(ask("second", lasting)))
	go func() { released <- p.auth.Release(w.long(), held) }()
	creates = append(creates, p.background(ask("third", lasting)))
	w.must(<-released)
	for _, c := range creates {
		if g := <-c; !strings.Contains(fmt.Sprint(g.err), "NOSPACE") {
			t.Errorf("a full etcd granted %+v, %v", g.Grant, g.err)
		}
	}
	w.noKeys("held")
}

// TestAWaiterWhoseTurnIsRefusedSaysSo: it was passed, so it has to take a later
// token, for which a full etcd has no space. It does not ask in a circle.
func TestAWaiterWhoseTurnIsRefusedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true, Quota: 4 << 20})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	waiter := b.stand(line("job", lasting))
	_, err := w.raw.Put(w.long(), w.prefix+"/floor/job", "somebody else was granted")
	w.must(err)
	w.fill()
	before := b.requests(txn)
	w.must(a.auth.Release(w.long(), first))
	if g := <-waiter; !strings.Contains(fmt.Sprint(g.err), "NOSPACE") {
		t.Errorf("a full etcd granted %+v, %v", g.Grant, g.err)
	}
	if n := b.requests(txn) - before; n > 10 {
		t.Errorf("it asked %d times", n)
	}
	w.noKeys("job")
	w.makeRoom()
	w.must(b.auth.Release(w.long(), b.acquire(ask("job", lasting))))
}

// TestARequestThatFillsEtcdLeavesNothingBehind: etcd carries out the request that
// crosses its quota, and refuses it all the same.
func TestARequestThatFillsEtcdLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true, Quota: 4 << 20})
	c := w.client(w.url("etcd", "", ""), calm)
	w.works(c, "warm")
	filled := make(chan error, 1)
	go func() {
		junk := string(bytes.Repeat([]byte("x"), 1<<16))
		for i := 0; ; i++ {
			if _, err := w.raw.Put(t.Context(), fmt.Sprintf("junk/%d", i), junk); err != nil {
				filled <- err
				return
			}
		}
	}()
	var full error
	for i := 0; full == nil; i++ { // creates on both sides of the moment
		l, err := c.TryAcquire(w.long(), fmt.Sprintf("job%d", i))
		switch {
		case err == nil:
			w.must(l.Release(w.long()))
		case !strings.Contains(err.Error(), "out of space") && !errors.Is(err, stint.ErrNoAnswer):
			t.Fatalf("a create failed for another reason: %v", err)
		}
		select {
		case full = <-filled:
		default:
		}
	}
	if !errors.Is(rpctypes.Error(full), rpctypes.ErrNoSpace) {
		t.Fatal(full)
	}
	w.eventually("no place is left", func() bool {
		got, err := w.raw.Get(w.long(), w.prefix+"/lock/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		w.must(err)
		return got.Count == 0
	})
}

// TestADataFolderThatIsDamagedEndsTheLeaseInTime: the member does not come up
// again, and says so in its log.
func TestADataFolderThatIsDamagedEndsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	c := w.client(w.url("etcd", "", ""), brief)
	l := w.lease(c, "job")
	w.must(w.cluster.Kill(0))
	db := filepath.Join(w.cluster.Dir(0), "member", "snap", "db")
	info, err := os.Stat(db)
	w.must(err)
	w.must(os.WriteFile(db, bytes.Repeat([]byte("damaged "), int(info.Size())/8), 0o600))
	if err := w.cluster.Restart(w.within(5*time.Second), 0); err == nil {
		t.Fatal("a member came up on a damaged database")
	}
	w.ends(l, "the connection")
	w.refused(c, "closes the connection without an answer")
}
