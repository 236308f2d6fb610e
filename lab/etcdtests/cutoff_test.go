package etcdtests

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
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
			var wg sync.WaitGroup
			ahead := make([]time.Duration, cutsPerDelay())
			for i := range ahead {
				p := w.party()
				name := fmt.Sprintf("job-%v-%d", delay, i)
				wg.Go(func() { ahead[i] = w.cutOff(p, rival, fences, name, delay, time.Duration(i)*83*time.Millisecond) })
			}
			wg.Wait()
			slices.Sort(ahead)
			t.Logf("with answers late by %v the holder had stopped before its rival's grant by %v at the least, %v at the most",
				delay, ahead[0].Round(time.Millisecond), ahead[len(ahead)-1].Round(time.Millisecond))
		})
	}
}

// cutOff is one trial; it returns by how much the holder was first.
func (w *world) cutOff(p, rival *party, fences fence.Fence, name string, delay, phase time.Duration) time.Duration {
	length := max(6*time.Second, (12 * delay).Round(time.Second))
	fail := func(err error) time.Duration { w.Errorf("%s: %v", name, err); return 0 }
	p.door.Each(func(l *etcdcluster.Link) { l.Delay(delay, etcdcluster.Back) })
	c := p.stint(stint.Options{TTL: length})
	l, err := c.Acquire(w.Context(), name)
	if err != nil {
		return fail(err)
	}
	old, err := fences.Raise(w.Context(), name, l.Grant())
	if err != nil {
		return fail(err)
	}
	waiting := rival.background(line(name, length))
	for l.Status().Renewals < 2 {
		if l.Err() != nil {
			return fail(fmt.Errorf("lost although only answers were late: %w", l.Err()))
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(phase) // the cut comes at some moment between two renewals
	p.cut()
	<-l.Context().Done()
	stopped := now()
	g := <-waiting
	if g.err != nil {
		return fail(g.err)
	}
	if !errors.Is(l.Err(), stint.ErrExpired) {
		w.Errorf("%s: the cause: %v", name, l.Err())
	}
	if g.at <= stopped {
		w.Errorf("%s: the rival was granted %v before the holder had stopped", name, stopped.Sub(g.at))
	}
	if _, err := fences.Raise(w.Context(), name, g.Grant.Grant); err != nil {
		return fail(err)
	}
	if err := fences.Check(w.Context(), old); !errors.Is(err, fence.ErrStale) {
		w.Errorf("%s: what the old holder still writes: %v", name, err)
	}
	if err := rival.auth.Release(w.Context(), g.Grant); err != nil {
		return fail(err)
	}
	return g.at.Sub(stopped)
}

// TestALeaseIsRenewedAgainAfterACut: the client was cut off for twice its lease;
// what it takes afterwards is renewed as ever.
func TestALeaseIsRenewedAgainAfterACut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	const length = 2 * time.Second
	c := p.stint(stint.Options{TTL: length})
	first, err := c.Acquire(w.long(), "job")
	w.must(err)
	p.cut()
	<-first.Context().Done()
	time.Sleep(length) // twice its lease in all
	p.open()
	again, err := c.Acquire(w.Context(), "job")
	w.must(err)
	if again.Token() <= first.Token() {
		t.Errorf("token %d after %d", again.Token(), first.Token())
	}
	held := authority.BootClock{}.Now().Add(3 * length)
	w.eventually("three lengths held", func() bool { w.must(again.Err()); return now() > held })
	w.must(again.Release(w.long()))
}
