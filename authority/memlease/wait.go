package memlease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
)

// waiter is a place in a line.
type waiter struct {
	id      string
	wake    chan struct{} // holds one hint
	waiting int           // calls to Wait in flight
	seen    time.Time     // when it was last heard of
}

func (w *waiter) hint() {
	select {
	case w.wake <- struct{}{}:
	default: // there is one already
	}
}

func (e *entry) index(id string) int {
	return slices.IndexFunc(e.line, func(w *waiter) bool { return w.id == id })
}

// ahead counts the waiters before id; all of them, if it is not in line.
func (e *entry) ahead(id string) int {
	if i := e.index(id); i >= 0 && id != "" {
		return i
	}
	return len(e.line)
}

func (e *entry) join(id string) {
	if i := e.index(id); i >= 0 {
		e.line[i].seen = time.Now()
		return
	}
	e.line = append(e.line, &waiter{id: id, wake: make(chan struct{}, 1), seen: time.Now()})
}

func (e *entry) drop(id string) {
	if i := e.index(id); i >= 0 && id != "" {
		e.line = slices.Delete(e.line, i, i+1)
	}
}

// prune forgets waiters who neither wait nor were heard of for a while.
func (e *entry) prune(now time.Time) {
	e.line = slices.DeleteFunc(e.line, func(w *waiter) bool {
		return w.waiting == 0 && now.Sub(w.seen) > patience
	})
}

func (e *entry) wakeFirst() {
	e.prune(time.Now())
	if len(e.line) > 0 {
		e.line[0].hint()
	}
}

// Wait implements authority.Queuer.
func (a *Authority) Wait(ctx context.Context, r authority.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Waiter == "" {
		return fmt.Errorf("memlease: %w: Wait needs a Waiter", authority.ErrInvalid)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := a.enter(ctx); err != nil {
		return err
	}
	e := a.entry(r.Name)
	i := e.index(r.Waiter)
	if i < 0 { // it lost its place: a try gives it a new one
		a.mu.Unlock()
		return nil
	}
	w := e.line[i]
	w.waiting++
	a.calls.Add(1)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		w.waiting--
		w.seen = time.Now()
		a.mu.Unlock()
		a.calls.Done()
	}()
	return a.wait(ctx, r.Name, e, w)
}

// wait looks at the line whenever there is a hint, at the holder's deadline,
// and when somebody ahead may have gone.
func (a *Authority) wait(ctx context.Context, name string, e *entry, w *waiter) error {
	for {
		pause := a.look(name, e, w)
		if pause <= 0 {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-w.wake:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-a.closed:
			t.Stop()
			return fmt.Errorf("memlease: %w", authority.ErrClosed)
		}
		t.Stop()
	}
}

// look returns how long w may sleep before it looks again; zero when a try is
// worthwhile.
func (a *Authority) look(name string, e *entry, w *waiter) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.prune(time.Now())
	now := a.clock.Now()
	i := e.index(w.id)
	if i < 0 || e.line[i] != w || i == 0 && !e.held(now) {
		return 0
	}
	// Behind others, only their death is to be noticed; the host may also have
	// slept, which a timer does not count.
	pause := patience / 4
	if i == 0 {
		pause = min(pause, e.deadline.Sub(now))
	}
	if !a.paced {
		pause = min(pause, 5*time.Millisecond)
	}
	return max(pause, time.Nanosecond)
}

// Leave implements authority.Queuer.
func (a *Authority) Leave(ctx context.Context, r authority.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if err := a.enter(ctx); err != nil {
		return err
	}
	defer a.mu.Unlock()
	e := a.names[r.Name]
	if e == nil {
		return nil
	}
	i := e.index(r.Waiter)
	e.drop(r.Waiter)
	if i == 0 {
		e.wakeFirst() // it may have been called already
	}
	return nil
}
