package etcdtests

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// cutsPerDelay is how many holders are cut off behind each delay.
func cutsPerDelay() int {
	if *long {
		return 60
	}
	return 20
}

// TestAHolderThatIsCutOffHasStoppedBeforeItsRivalIsGranted: the answers come late
// for a while, and then nothing comes through any more. What the holder still
// writes after its rival has raised the fence is refused.
func TestAHolderThatIsCutOffHasStoppedBeforeItsRivalIsGranted(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true}) // it is not about disks
	rival := w.party()
	fences := fence.NewMemory()
	for _, delay := range []time.Duration{0, 300 * time.Millisecond, 800 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, cluster: w.cluster, raw: w.raw, prefix: w.prefix}
			late := w.stopwatch()
			var wg sync.WaitGroup
			ahead := make([]time.Duration, cutsPerDelay())
			for i := range ahead {
				c := cut{
					world: w, p: w.party(), rival: rival, fences: fences, late: late,
					name: fmt.Sprintf("job-%v-%d", delay, i), delay: delay, phase: time.Duration(i) * 83 * time.Millisecond,
				}
				wg.Go(func() {
					var err error
					if ahead[i], err = c.run(); err != nil {
						w.Errorf("%s: %v", c.name, err)
					}
				})
			}
			wg.Wait()
			slices.Sort(ahead)
			t.Logf("with answers late by %v the holder had stopped before its rival's grant by %v at the least, %v at the most",
				delay, ahead[0].Round(time.Millisecond), ahead[len(ahead)-1].Round(time.Millisecond))
		})
	}
}

// cut is one holder that is cut off.
type cut struct {
	*world
	p, rival     *party
	fences       fence.Fence
	late         func() time.Duration
	name         string
	delay, phase time.Duration
}

// run returns by how much the holder was first.
func (c cut) run() (ahead time.Duration, _ error) {
	length := max(8*time.Second, (12 * c.delay).Round(time.Second))
	c.p.door.Each(func(l *etcdcluster.Link) { l.Delay(c.delay, etcdcluster.Back) })
	l, err := c.p.stint(stint.Options{TTL: length}).Acquire(c.Context(), c.name)
	if err != nil {
		return 0, err
	}
	holds := l.Context()
	old, err := c.fences.Raise(c.Context(), c.name, l.Grant())
	if err != nil {
		return 0, err
	}
	waiting := c.rival.rival(line(c.name, length), l)
	for l.Status().Renewals < 2 {
		if l.Err() != nil {
			return 0, fmt.Errorf("lost although only answers were late: %w", l.Err())
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(c.phase) // the cut comes at some moment between two renewals
	c.p.cut()
	<-holds.Done()
	stopped := now()
	g := <-waiting
	if g.err != nil {
		return 0, g.err
	}
	if !errors.Is(l.Err(), stint.ErrExpired) {
		c.Errorf("%s: the cause: %v", c.name, l.Err())
	}
	// The lease itself was over at the grant: the rival has looked. When this
	// goroutine hears of it is up to the scheduler, too.
	ahead = g.at.Sub(stopped)
	if -ahead > 3*c.late() {
		c.Errorf("%s: the rival was granted %v before the holder heard that it had to stop (timers were late by up to %v)", c.name, -ahead, c.late())
	}
	if _, err := c.fences.Raise(c.Context(), c.name, g.Grant.Grant); err != nil {
		return 0, err
	}
	if err := c.fences.Check(c.Context(), old); !errors.Is(err, fence.ErrStale) {
		c.Errorf("%s: what the old holder still writes: %v", c.name, err)
	}
	return ahead, c.rival.auth.Release(c.Context(), g.Grant)
}

// TestALeaseIsRenewedAgainAfterACut: the client was cut off for twice its lease;
// what it takes afterwards is renewed as ever.
func TestALeaseIsRenewedAgainAfterACut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	const length = 6 * time.Second
	c := p.stint(stint.Options{TTL: length})
	first := w.lease(c, "job")
	p.cut()
	<-first.Context().Done()
	time.Sleep(length) // twice its lease in all
	p.open()
	again := w.lease(c, "job")
	if again.Token() <= first.Token() {
		t.Errorf("token %d after %d", again.Token(), first.Token())
	}
	held := now().Add(2 * length)
	w.eventually("two lengths held", func() bool { w.must(again.Err()); return now() > held })
	w.must(again.Release(w.long()))
}
