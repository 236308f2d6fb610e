package etcdtests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// url is what a user writes for the cluster: with user@ before the hosts, and
// the parameters after '?'.
func (w *world) url(scheme, user, parameters string) string {
	u := scheme + "://" + user + strings.Join(w.cluster.Endpoints(), ",") + "/" + w.prefix
	if parameters != "" {
		u += "?" + parameters
	}
	return u
}

// via is a URL that comes in by a door of its own.
func (w *world) via(d *etcdcluster.Door, url string) string {
	return strings.Replace(url, strings.Join(w.cluster.Endpoints(), ","), strings.Join(d.Endpoints(), ","), 1)
}

// open opens a URL; it is closed when the test ends.
func (w *world) open(url string) authority.Authority {
	w.Helper()
	a, err := authority.Open(w.long(), url)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { a.Close() })
	return a
}

// client is a Client on a URL.
func (w *world) client(url string, o stint.Options) *stint.Client {
	w.Helper()
	c, err := stint.New(w.open(url), o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { c.Close() }) // its error is about leases that were taken away
	return c
}

// user makes a user with a role that has the given right to the world's prefix.
func (w *world) user(name, password string, right clientv3.PermissionType) {
	w.Helper()
	_, err := w.raw.RoleAdd(w.long(), "role-"+name)
	w.must(err)
	w.grant(name, right)
	_, err = w.raw.UserAdd(w.long(), name, password)
	w.must(err)
	_, err = w.raw.UserGrantRole(w.long(), name, "role-"+name)
	w.must(err)
}

// grant is etcdctl role grant-permission --prefix=true ROLE … PREFIX/
func (w *world) grant(name string, right clientv3.PermissionType) {
	w.Helper()
	p := w.prefix + "/"
	_, err := w.raw.RoleGrantPermission(w.long(), "role-"+name, p, clientv3.GetPrefixRangeEnd(p), right)
	w.must(err)
}

// file writes a file, as whoever rotates a secret does: at once.
func (w *world) file(name, text string) string {
	w.Helper()
	tmp := filepath.Join(w.TempDir(), "new")
	if name == "" {
		name = filepath.Join(w.TempDir(), "file")
	}
	w.must(os.WriteFile(tmp, []byte(text), 0o600))
	w.must(os.Rename(tmp, name))
	return name
}

// renewed waits until a lease has been renewed by a request that was sent from
// now on.
func (w *world) renewed(l *stint.Lease, o stint.Options) {
	w.Helper()
	o, err := o.Effective()
	w.must(err)
	until := now().Add(o.TTL - o.Margin)
	w.eventually("the lease is renewed", func() bool { return w.allHeld([]*stint.Lease{l}, until) })
}

// ends waits for the end of a lease that is not renewed any more: at its stop
// time it has expired, and what it says tells why.
func (w *world) ends(l *stint.Lease, why string) {
	w.Helper()
	var stop authority.Instant // zero: it had ended before
	for ctx := w.long(); l.Err() == nil; time.Sleep(time.Millisecond) {
		if s := l.Status(); s.Held {
			stop = s.Stop
		}
		if ctx.Err() != nil {
			w.Fatal("the lease never ended")
		}
	}
	if early := stop.Sub(now()); early > 0 {
		w.Errorf("the lease ended %v before its stop time", early)
	}
	w.eventually("the context is done", func() bool { return l.Context().Err() != nil })
	err := l.Err()
	if !errors.Is(err, stint.ErrExpired) || !strings.Contains(err.Error(), why) {
		w.Errorf("the lease ended by %v; want %v because of %q", err, stint.ErrExpired, why)
	}
}

// brief is a lease that a test waits for the end of, and in which a busy etcd can
// still say several times why it renews nothing.
var brief = stint.Options{TTL: 10 * time.Second}

// refused tries to acquire for as long, and expects an error that says why.
func (w *world) refused(c *stint.Client, why string) error {
	w.Helper()
	late := w.stopwatch()
	began := now()
	for10s, err := c.With(stint.Options{TTL: brief.TTL, Wait: brief.TTL})
	w.must(err)
	_, err = for10s.Acquire(w.long(), "other")
	if err == nil || !strings.Contains(err.Error(), why) {
		w.Errorf("acquiring: %v; want %q", err, why)
	}
	if d := now().Sub(began); d > 2*brief.TTL+3*late() {
		w.Errorf("it took %v to say so (timers were late by up to %v)", d, late())
	}
	return err
}

// works acquires and releases.
func (w *world) works(c *stint.Client, name string) {
	w.Helper()
	l, err := c.Acquire(w.long(), name)
	w.must(err)
	w.must(l.Release(w.long()))
}

// noSecret complains when an error tells a password.
func noSecret(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if err != nil && strings.Contains(err.Error(), s) {
			t.Errorf("the error tells %q: %v", s, err)
		}
	}
}
