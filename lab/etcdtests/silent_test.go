package etcdtests

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAServerThatStopsAnsweringEndsTheLeaseInTime: its connections stay open, and
// it accepts new ones. The client works again when the server does.
func TestAServerThatStopsAnsweringEndsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	c := w.client(w.url("etcd", "", ""), brief)
	l := w.lease(c, "job")
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

// TestAServerThatStopsIsLeftForAnother: what is held through it goes on, and so
// does a client whose login runs out meanwhile.
func TestAServerThatStopsIsLeftForAnother(t *testing.T) {
	for what, start := range map[string]func(*testing.T) (*world, string){
		"no users": func(t *testing.T) (*world, string) {
			return newWorld(t, 3, etcdcluster.Options{NoSync: true}), ""
		},
		"users": func(t *testing.T) (*world, string) {
			w := withUsers(t, 3)
			w.user("worker", "hunter2", readWrite)
			return w, "worker:hunter2@"
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, user := start(t)
			o := calm
			c := w.client(w.url("etcd", user, ""), o)
			l := w.lease(c, "job")
			for i := range 3 {
				w.must(w.cluster.Stop(i))
				w.renewed(l, o)
				w.works(c, "other")
				w.must(w.cluster.Cont(i))
				w.must(w.cluster.AwaitReady(w.long()))
			}
		})
	}
}

// TestAServerThatIsDownIsNotWaitedFor: although one request may take very long,
// one to a server that cannot be reached fails at once, and the next is asked.
func TestAServerThatIsDownIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	client, err := clientv3.New(w.cluster.ClientConfig(w.cluster.Endpoints()))
	w.must(err)
	a, err := etcdlease.New(client, etcdlease.Options{Prefix: w.prefix, Timeout: time.Minute, OwnClient: true})
	w.must(err)
	t.Cleanup(func() { a.Close() })
	for i := range 3 {
		g, err := a.Acquire(w.long(), ask("job", lasting))
		w.must(err)
		w.must(w.cluster.Kill(i))
		_, err = a.Renew(w.long(), g)
		w.must(err)
		w.must(a.Release(w.long(), g))
		w.must(w.cluster.Restart(w.long(), i))
	}
}
