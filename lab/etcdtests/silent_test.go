package etcdtests

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// TestAServerThatStopsAnsweringEndsTheLeaseInTime: its connections stay open, and
// it accepts new ones. The client works again when the server does.
func TestAServerThatStopsAnsweringEndsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	c := w.client(w.url("etcd", "", ""), stint.Options{TTL: 3 * time.Second})
	l, err := c.Acquire(w.long(), "job")
	w.must(err)
	w.must(w.cluster.Stop(0))
	w.ends(l, "has not answered")
	w.refused(c, "answer")
	ctx := w.within(time.Second)
	if _, err := authority.Open(ctx, w.url("etcd", "", "")); !errors.Is(err, ctx.Err()) || err == nil {
		t.Errorf("opening: %v", err)
	}
	w.must(w.cluster.Cont(0))
	w.works(c, "job")
}

// TestAServerThatStopsIsLeftForAnother: what is held through it goes on.
func TestAServerThatStopsIsLeftForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	o := stint.Options{TTL: 5 * time.Second}
	c := w.client(w.url("etcd", "", ""), o)
	l, err := c.Acquire(w.long(), "job")
	w.must(err)
	for i := range 3 {
		w.must(w.cluster.Stop(i))
		w.renewed(l, o)
		w.works(c, "other")
		w.must(w.cluster.Cont(i))
		w.must(w.cluster.AwaitReady(w.long()))
	}
}
