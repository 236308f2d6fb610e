package etcdtests

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAServerWhoseClockIsOffDoesNotOutrunTheStopTime: holders are cut off in the
// middle of their renewals, and at the moment at which a rival learns that it has
// the lease, the holder has stopped. That a clock is fast beyond what the margin
// (a fifth) pays for is noticed shows that the clocks are off at all.
func TestAServerWhoseClockIsOffDoesNotOutrunTheStopTime(t *testing.T) {
	// Not beside others: where a build writes, a server's fsync takes long.
	program := memberWithAClock(t)
	for _, c := range []struct {
		rate   float64
		outrun bool
	}{{0.99, false}, {1.01, false}, {1.25, false}, {1.6, true}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, etcdcluster.Options{NoSync: true, Program: program, Environ: []string{fmt.Sprintf("%s=%v", rateEnv, c.rate)}})
			outrun := w.cutHolders()
			switch {
			case c.outrun && outrun == 0:
				t.Error("no holder was outrun: is the clock as it should be?")
			case !c.outrun && outrun > 0:
				t.Errorf("%d holders went on while their rivals held", outrun)
			}
		})
	}
}

// cutHolders cuts holders off, each at another moment between two renewals, and
// reports how many went on when their rivals were granted.
func (w *world) cutHolders() (outrun int) {
	const holders, length = 12, 8 * time.Second
	rival := w.party()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range holders {
		c, door := w.behindADoor(stint.Options{TTL: length})
		name := fmt.Sprint("job", i)
		l, err := c.Acquire(w.long(), name)
		w.must(err)
		next := rival.rival(line(name, length), l)
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 150 * time.Millisecond) // the moment is what is tried out
			door.Each(func(l *etcdcluster.Link) { l.Cut() })
			g := <-next
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(g.err, errOutrun):
				outrun++
				w.Logf("%s: %v", name, g.err)
			case g.err != nil:
				w.Errorf("%s: the rival was not granted: %v", name, g.err)
			case g.Token <= l.Token():
				w.Errorf("%s: token %d after %d", name, g.Token, l.Token())
			}
		})
	}
	wg.Wait()
	return outrun
}

// behindADoor is a Client that can be cut off; it is closed when the test ends.
func (w *world) behindADoor(o stint.Options) (*stint.Client, *etcdcluster.Door) {
	w.Helper()
	door, err := w.cluster.Door()
	w.must(err)
	etcd, err := clientv3.New(w.cluster.ClientConfig(door.Endpoints()))
	w.must(err)
	var a authority.Authority
	a, err = etcdlease.New(etcd, etcdlease.Options{Prefix: w.prefix, OwnClient: true})
	w.must(err)
	c, err := stint.New(a, o)
	w.must(err)
	w.Cleanup(func() {
		door.Each(func(l *etcdcluster.Link) { l.Open() }) // or Close waits for answers
		c.Close()
		a.Close()
	})
	return c, door
}
