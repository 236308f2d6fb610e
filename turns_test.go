package stint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/memlease"
)

// began is an authority whose requests are only begun; half of them are answered
// before the call returns.
type began struct {
	authority.Authority
	authority.Queuer
	n *atomic.Int64
}

func (b began) run(f func()) {
	if b.n.Add(1)%2 == 0 {
		f()
		return
	}
	go f()
}

func (b began) StartAcquire(ctx context.Context, r authority.Request, answered func(authority.Grant, error)) {
	b.run(func() { answered(b.Acquire(ctx, r)) })
}

func (b began) StartRelease(ctx context.Context, g authority.Grant, answered func(error)) {
	b.run(func() { answered(b.Release(ctx, g)) })
}

// TestMachinesAreTouchedByOneGoroutineAtATime: whoever posts may take the turn,
// and nothing is left lying, up to the end of the client. (The race detector
// sees the first half.)
func TestMachinesAreTouchedByOneGoroutineAtATime(t *testing.T) {
	m := memlease.New(authority.BootClock{})
	c := must[*Client](t)(New(began{m, m, new(atomic.Int64)}, Options{}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	var holders [4]atomic.Int64
	cycle := func(name int) error {
		l, err := c.Acquire(ctx, fmt.Sprint("job", name))
		if err != nil {
			return err
		}
		if holders[name].Add(1) != 1 {
			err = errors.New("two hold at once")
		}
		l.Beat()
		holders[name].Add(-1)
		return errors.Join(err, l.Release(ctx))
	}
	for w := range 32 {
		all.Go(func() {
			for range 100 {
				if err := cycle(w % len(holders)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	// And now Close comes in between.
	for w := range 32 {
		all.Go(func() {
			for {
				if err := cycle(w % len(holders)); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestTimersAreLookedAtBesideTurns: the loop itself may find somebody else about
// its work when a lease's time comes.
func TestTimersAreLookedAtBesideTurns(t *testing.T) {
	m := memlease.New(authority.BootClock{})
	c := must[*Client](t)(New(began{m, m, new(atomic.Int64)}, Options{TTL: 5 * time.Second}))
	kept := must[*Lease](t)(c.Acquire(t.Context(), "kept"))
	for begun := time.Now(); time.Since(begun) < 4500*time.Millisecond; { // past its first stop time
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Err(); err != nil {
		t.Errorf("it was not renewed: %v", err)
	}
	if err := errors.Join(c.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}
