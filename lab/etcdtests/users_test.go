package etcdtests

import (
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// TestLeasesOutliveTheLogin: etcd forgets a login after a while in which it was
// not used; renewals are further apart than that.
func TestLeasesOutliveTheLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{RootPassword: "secret", AuthTokenTTL: time.Second})
	a, b := w.party(), w.party()
	const length = 10 * time.Second // renewed every 3 s
	c, d := a.stint(stint.Options{TTL: length}), b.stint(stint.Options{TTL: length})
	l := w.lease(c, "job")
	waiting := make(chan leased, 1)
	go func() { l, err := d.Acquire(w.within(time.Minute), "job"); waiting <- leased{l, err} }()
	until := now().Add(length * 3 / 2)
	for now() < until {
		w.must(l.Err())
		time.Sleep(10 * time.Millisecond)
	}
	w.must(l.Release(w.long()))
	next := <-waiting
	w.must(next.err)
	w.must(next.lease.Release(w.long()))
}

// TestACrashedHolderIsSucceededWhereThereAreUsers: etcd's own removal of what has
// run out needs no login.
func TestACrashedHolderIsSucceededWhereThereAreUsers(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{RootPassword: "secret", AuthTokenTTL: time.Second})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", 2*time.Second))
	a.cut()
	g := w.next(b.background(line("job", lasting)))
	if g.Token <= first.Token {
		t.Errorf("token %d after %d", g.Token, first.Token)
	}
}
