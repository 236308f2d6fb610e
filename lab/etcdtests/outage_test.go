package etcdtests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const heldLeases = 1000

// resumeWithin is how long after the cluster answers again renewals may take to
// get through: a fraction of a second on a machine of its own, and more where
// timers are late. How long the cluster takes is etcd's, and the machine's. A client
// that goes on asking who does not answer takes longer, or loses its leases.
const resumeWithin = 4 * time.Second

// TestNoLeaseIsLostWithTheLeader takes the leader away in every way from under a
// client that holds many leases: none ends, no token changes.
func TestNoLeaseIsLostWithTheLeader(t *testing.T) {
	for name, fault := range map[string]func(c *etcdcluster.Cluster, leader int) error{
		"kill -9": (*etcdcluster.Cluster).Kill,
		"SIGSTOP": (*etcdcluster.Cluster).Stop,
		"cut off": func(c *etcdcluster.Cluster, leader int) error { c.CutOff(leader); return nil },
		// Clients still reach it, and it believes to lead for a while.
		"isolated": func(c *etcdcluster.Cluster, leader int) error { c.Isolate(leader); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
			// Renewed often, to see when renewals get through again.
			o, err := stint.Options{Renew: 500 * time.Millisecond}.Effective()
			w.must(err)
			leases := w.hold(w.party().stint(o), heldLeases)
			leader, err := w.cluster.Leader(w.long())
			w.must(err)
			st, err := w.cluster.Status(w.long(), leader)
			w.must(err)
			slow := w.stopwatch()
			began := now()
			w.must(fault(w.cluster, leader))
			back := w.recovered(leader, st.Term)
			// What counts from later than the fault was renewed after it.
			renewed := began.Add(o.TTL - o.Margin)
			w.eventually("all leases are renewed after the fault", func() bool { return w.allHeld(leases, renewed) })
			resumed := now()
			after := now().Add(o.TTL - o.Margin)
			w.eventually("and again", func() bool { return w.allHeld(leases, after) })
			recovered := <-back
			t.Logf("%d leases of %v, renewed every %v: the cluster answered again %v after its leader was gone, all were renewed %v after it was",
				len(leases), o.TTL, o.Renew, recovered.Sub(began).Round(time.Millisecond), resumed.Sub(began).Round(time.Millisecond))
			if late := resumed.Sub(recovered); late > resumeWithin+5*slow() {
				t.Errorf("all were renewed only %v after the cluster answered again (timers were late by up to %v)", late, slow())
			}
			w.sameTokens(leases)
		})
	}
}

// recovered asks the others in the background, until one of them answers in a
// later term than the leader that is gone: then there is a new one.
func (w *world) recovered(leader int, term uint64) <-chan authority.Instant {
	ctx, cancel := context.WithCancel(w.long())
	at := make(chan authority.Instant, w.cluster.Size())
	var asking sync.WaitGroup
	for i, endpoint := range w.cluster.Endpoints() {
		if i == leader {
			continue
		}
		one, err := clientv3.New(w.cluster.ClientConfig([]string{endpoint}))
		w.must(err)
		asking.Go(func() {
			defer one.Close()
			for ctx.Err() == nil {
				asked, end := context.WithTimeout(ctx, 500*time.Millisecond)
				got, err := one.Get(asked, "nothing")
				end()
				if err == nil && got.Header.RaftTerm > term {
					at <- now()
					cancel()
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	w.Cleanup(func() { cancel(); asking.Wait() })
	go func() { asking.Wait(); close(at) }()
	return at
}

// hold acquires many names at once.
func (w *world) hold(c *stint.Client, n int) []*stint.Lease {
	w.Helper()
	leases, errs := make([]*stint.Lease, n), make([]error, n)
	var wg sync.WaitGroup
	const askers = 40 // fewer than a Client sends at once: none waits for its turn
	for i := range askers {
		wg.Go(func() {
			for j := i; j < n; j += askers {
				leases[j], errs[j] = c.TryAcquire(w.Context(), fmt.Sprintf("job%d", j))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		w.must(err)
	}
	return leases
}

// allHeld reports whether every lease is good until the given instant at least.
func (w *world) allHeld(leases []*stint.Lease, until authority.Instant) bool {
	w.Helper()
	for _, l := range leases {
		if err := l.Err(); err != nil {
			w.Fatalf("a lease was lost: %v", err)
		}
		if l.Status().Stop < until {
			return false
		}
	}
	return true
}

// sameTokens compares what the holders believe with what lies in etcd.
func (w *world) sameTokens(leases []*stint.Lease) {
	w.Helper()
	got, err := w.raw.Get(w.long(), w.prefix+"/lock/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	w.must(err)
	tokens := map[string]int64{} // by name: each has one place
	for _, kv := range got.Kvs {
		tokens[strings.Split(string(kv.Key), "/")[2]] = kv.ModRevision
	}
	for _, l := range leases {
		if tokens[l.Name()] != int64(l.Token()) {
			w.Errorf("%s: held with token %d, and its place in etcd has %d", l.Name(), l.Token(), tokens[l.Name()])
		}
	}
	if len(got.Kvs) != len(leases) {
		w.Errorf("%d leases, and %d places in etcd", len(leases), len(got.Kvs))
	}
}

// TestLeasesOutliveATimeWithoutALeader: most of the members are gone for more
// than half of a lease.
func TestLeasesOutliveATimeWithoutALeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	// What is left of a lease, a fifth of it, is for the machine.
	o, err := stint.Options{TTL: 30 * time.Second, Renew: 2 * time.Second}.Effective()
	w.must(err)
	leases := w.hold(w.party().stint(o), 100)
	w.must(w.cluster.Stop(0))
	w.must(w.cluster.Stop(1))
	time.Sleep(o.TTL * 55 / 100) // the outage itself
	w.must(w.cluster.Cont(0))
	w.must(w.cluster.Cont(1))
	renewed := now().Add(o.TTL - o.Margin)
	w.eventually("all are renewed after it", func() bool { return w.allHeld(leases, renewed) })
	w.sameTokens(leases)
}

// TestLeasesOutliveARollingRestart: each member in turn ends gracefully and comes
// back, while leases are held and names change hands.
func TestLeasesOutliveARollingRestart(t *testing.T) {
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	o, err := stint.Options{}.Effective()
	w.must(err)
	a, b := w.party().stint(o), w.party().stint(o)
	leases := w.hold(a, 200)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var handed [2]int
	var last struct {
		sync.Mutex
		token, held int64
	}
	for i, c := range []*stint.Client{a, b} {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := c.Do(w.Context(), "handed", func(_ context.Context, l *stint.Lease) error {
					last.Lock()
					defer last.Unlock()
					if last.held++; last.held != 1 || int64(l.Token()) <= last.token {
						return fmt.Errorf("%d hold; token %d after %d", last.held, l.Token(), last.token)
					}
					last.token = int64(l.Token())
					handed[i]++
					last.held--
					return nil
				})
				if err != nil {
					w.Errorf("the name that changes hands: %v", err)
					return
				}
			}
		})
	}
	for i := range w.cluster.Size() {
		w.must(w.cluster.Restart(w.within(time.Minute), i))
	}
	renewed := now().Add(o.TTL - o.Margin)
	w.eventually("all are renewed after it", func() bool { return w.allHeld(leases, renewed) })
	close(stop)
	wg.Wait()
	if handed[0] == 0 || handed[1] == 0 {
		t.Errorf("the name was held %v times", handed)
	}
	t.Logf("meanwhile a name was held %v times", handed)
}
