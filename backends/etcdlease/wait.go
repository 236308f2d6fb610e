package etcdlease

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/authority"
)

// Wait implements authority.Queuer. It asks nobody: the answer to the create
// said how many are ahead, and the watch tells when they go.
func (a *Authority) Wait(ctx context.Context, r authority.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Waiter == "" {
		return fmt.Errorf("etcdlease: %w: Wait needs a Waiter", authority.ErrInvalid)
	}
	if err := a.enter(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	a.mu.Lock()
	p := a.waiting[wait{r.Name, r.Waiter}]
	if p == nil { // a try gives it a new place
		a.mu.Unlock()
		return nil
	}
	p.waits++
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		p.waits--
		p.heard = a.clock.Now()
		p.s.nudge() // who does not come back loses its place
	}()
	for {
		var until <-chan struct{}
		switch {
		case p.phase == creating && p.op != nil:
			until = p.op.done
		case p.phase == inLine && !p.first() && !p.s.over:
			until = p.turns()
		default:
			a.mu.Unlock()
			return nil
		}
		a.mu.Unlock()
		select {
		case <-until:
		case <-ctx.Done():
			return nil
		case <-a.closed:
			return errClosed()
		}
		a.mu.Lock()
	}
}

// Leave implements authority.Queuer. A delete whose answer is lost goes on in
// the background.
func (a *Authority) Leave(ctx context.Context, r authority.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if err := a.enter(ctx); err != nil {
		return err
	}
	for {
		a.mu.Lock()
		p := a.waiting[wait{r.Name, r.Waiter}]
		if r.Waiter == "" || p == nil || p.phase == held || p.phase == gone {
			a.mu.Unlock()
			return nil
		}
		o := p.op
		if o == nil {
			o = a.remove(p, opRemove)
		}
		a.mu.Unlock()
		if err := a.within(ctx, o.done); err != nil {
			a.leaveLater(p)
			return err
		}
		if o.kind.removes() && o.err != nil && o.err != errEndedBefore {
			return o.err
		}
	}
}

// leaveLater lets a place go as soon as what is under way for it is over.
func (a *Authority) leaveLater(p *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.phase == creating {
		p.unwanted = true
	}
}
