package etcdtests

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
)

// TestAWaiterIsServedAlthoughTheServerItWatchesFallsSilent: the connection stays
// open and nothing comes over it any more. The name is released meanwhile, at
// the others.
func TestAWaiterIsServedAlthoughTheServerItWatchesFallsSilent(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin func(c *etcdcluster.Cluster, leader int) error
		end   func(c *etcdcluster.Cluster, leader int) error
	}{
		"frozen": {(*etcdcluster.Cluster).Stop, (*etcdcluster.Cluster).Cont},
		"cut off": {
			func(c *etcdcluster.Cluster, i int) error { c.CutOff(i); return nil },
			func(c *etcdcluster.Cluster, i int) error { c.Rejoin(i); return nil },
		},
		// It answers, and hears nothing of what the others decide.
		"isolated": {
			func(c *etcdcluster.Cluster, i int) error { c.Isolate(i); return nil },
			func(c *etcdcluster.Cluster, i int) error { c.Rejoin(i); return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
			a, b := w.party(), w.party()
			first := a.acquire(ask("job", lasting))
			waiter := b.stand(line("job", lasting))
			leader, err := w.cluster.Leader(w.long())
			w.must(err)
			w.must(fault.begin(w.cluster, leader))
			began := now()
			w.must(a.auth.Release(w.long(), first))
			released := now()
			g := w.next(waiter)
			t.Logf("the release took %v, and the waiter was served %v after it",
				released.Sub(began).Round(time.Millisecond), now().Sub(released).Round(time.Millisecond))
			if g.Token <= first.Token {
				t.Errorf("token %d after %d", g.Token, first.Token)
			}
			w.must(fault.end(w.cluster, leader))
			w.must(b.auth.Release(w.long(), g))
			w.noKeys("job")
		})
	}
}

// TestAWaitThatBeginsAtASilentServerIsServed: the same, and the waiter comes only
// when the server has fallen silent.
func TestAWaitThatBeginsAtASilentServerIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	b.acquire(ask("warm", lasting))
	leader, err := w.cluster.Leader(w.long())
	w.must(err)
	w.must(w.cluster.Stop(leader))
	waiter := b.stand(line("job", lasting))
	w.must(a.auth.Release(w.long(), first))
	w.must(b.auth.Release(w.long(), w.next(waiter)))
	w.must(w.cluster.Cont(leader))
	w.noKeys("job")
}
