package memlease

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Inspect implements authority.Authority.
func (a *Authority) Inspect(ctx context.Context, name string) (authority.State, error) {
	if err := (authority.Request{Name: name, Length: authority.MinLength, Nonce: "x"}).Check(); err != nil {
		return authority.State{}, err
	}
	if err := a.enter(ctx); err != nil {
		return authority.State{}, err
	}
	defer a.mu.Unlock()
	e := a.names[name]
	if e == nil {
		return authority.State{Name: name}, nil
	}
	e.prune(time.Now())
	return e.state(name, a.clock.Now()), nil
}

// List implements authority.Lister: the names that were ever held or are waited
// for, as they were at one moment.
func (a *Authority) List(ctx context.Context) iter.Seq2[authority.State, error] {
	return func(yield func(authority.State, error) bool) {
		all, err := a.snapshot(ctx)
		if err != nil {
			yield(authority.State{}, err)
			return
		}
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (a *Authority) snapshot(ctx context.Context) ([]authority.State, error) {
	if err := a.enter(ctx); err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	now := a.clock.Now()
	var all []authority.State
	for _, name := range slices.Sorted(maps.Keys(a.names)) {
		if e := a.names[name]; e.grant.Token != 0 || len(e.line) > 0 {
			all = append(all, e.state(name, now))
		}
	}
	return all, nil
}

// Bump raises the token counter by n: what an operator does after a restore.
func (a *Authority) Bump(n fence.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counter = min(a.counter+max(n, 0), fence.MaxToken)
}

// Lateness implements authority.Timing: a dead waiter at the head of the line
// holds up the others for this long at most.
func (a *Authority) Lateness() time.Duration { return patience + patience/2 }

// Describe implements authority.Describer.
func (a *Authority) Describe() string { return "memory (this process only)" }

// Close implements authority.Authority. Calls to Wait end with ErrClosed.
func (a *Authority) Close() error {
	a.mu.Lock()
	select {
	case <-a.closed:
	default:
		close(a.closed)
	}
	a.mu.Unlock()
	a.calls.Wait()
	return nil
}
