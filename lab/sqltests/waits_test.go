package sqltests

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// dearer is how many times the requests a raise makes that ends a session, over one
// that nobody holds up: it logs in, looks for the session twice, ends it, and
// begins again.
const dearer = 5

// pace raises another name time and again, until it is asked for the slowest one:
// a machine with other work shows in it.
func (s *store) pace(ctx context.Context) (slowest func() (time.Duration, error)) {
	ctx, cancel := context.WithCancel(ctx)
	var most time.Duration
	var err error
	var ended sync.WaitGroup
	ended.Go(func() {
		for token := grant(1, "pace"); ; token.Token++ {
			begun := time.Now()
			// Not by ctx: one that is under way comes to its end.
			if _, err = s.f.Raise(context.WithoutCancel(ctx), "pace", token); err != nil {
				return
			}
			most = max(most, time.Since(begun))
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	})
	return func() (time.Duration, error) {
		cancel()
		ended.Wait()
		return most, err
	}
}

// waits is how long raises took, for people.
type waits struct {
	mu          sync.Mutex
	took, paces []time.Duration
}

func (w *waits) add(took, pace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took, w.paces = append(w.took, took), append(w.paces, pace)
}

func (w *waits) String() string {
	if len(w.took) == 0 {
		return "no raise came through"
	}
	over := 0 // the lock time: those held something up
	for _, took := range w.took {
		if took >= lockTime {
			over++
		}
	}
	return fmt.Sprintf("%d raises, %d of them past the lock timeout of %v, the slowest %v; the slowest that nobody held up %v",
		len(w.took), over, lockTime, slices.Max(w.took).Round(time.Millisecond), slices.Max(w.paces).Round(time.Millisecond))
}
