package etcdlease

import (
	"context"
	"time"

	"github.com/stint-dev/stint/authority"
)

// StartAcquire implements authority.Starter: a new place is asked for in the next
// Txn, and whoever takes that Txn's answer tells the grant. What takes more goes
// on as Acquire does, on a goroutine of its own.
func (a *Authority) StartAcquire(ctx context.Context, r authority.Request, answered func(authority.Grant, error)) {
	if err := a.admit(ctx, r); err != nil {
		answered(authority.Grant{}, err)
		return
	}
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		answered(authority.Grant{}, errClosed())
		return
	}
	defer a.mu.Unlock()
	s := a.usable(r.Length)
	if s == nil || a.find(r) != nil {
		a.group.Go(func() { answered(a.Acquire(ctx, r)) })
		return
	}
	o := a.begin(r, s, false)
	p := o.p
	stop := context.AfterFunc(ctx, func() {
		a.abandon(p)
		answered(authority.Grant{}, a.o.explain(ctx.Err()))
	})
	o.told = func() {
		if !stop() { // ctx was first, and has answered
			return
		}
		if a.ctx.Err() != nil {
			answered(authority.Grant{}, errClosedMeanwhile)
			return
		}
		if g, ok := a.granted(o); ok {
			answered(g, nil)
			return
		}
		a.group.Go(func() { answered(a.pursue(ctx, r, o, p)) })
	}
	a.enqueue(o)
}

// granted takes the grant that an op has brought at once.
func (a *Authority) granted(o *op) (authority.Grant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.err != nil || o.refused != nil || !o.p.ready() {
		return authority.Grant{}, false
	}
	return o.p.take(), true
}

// StartRelease implements authority.Starter. A delete for which a waiter of this
// client waits goes on a goroutine of its own: see express.
func (a *Authority) StartRelease(ctx context.Context, g authority.Grant, answered func(error)) {
	if err := a.admitRelease(ctx, g); err != nil {
		answered(err)
		return
	}
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		answered(errClosed())
		return
	}
	defer a.mu.Unlock()
	p := a.own(g)
	if p == nil || p.phase != held || p.op != nil || a.clock.Now() >= p.deadline() || len(a.lines[g.Name].waiters()) > 0 {
		a.group.Go(func() { answered(a.Release(ctx, g)) })
		return
	}
	o, _ := a.removal(p, opRemove)
	stop := context.AfterFunc(ctx, func() { answered(a.o.explain(ctx.Err())) })
	o.told = func() {
		switch {
		case !stop():
		case a.ctx.Err() != nil:
			answered(errClosedMeanwhile)
		case o.err == nil && o.kind == opRemove:
			answered(nil)
		default:
			a.group.Go(func() { answered(a.releaseEnded(ctx, g, o)) })
		}
	}
	a.enqueue(o)
}

// usable is a session that has room for one more place now, or nil. a.mu is held.
func (a *Authority) usable(length time.Duration) *session {
	for _, s := range a.current[length] {
		select {
		case <-s.ready:
		default:
			continue
		}
		if s.err == nil && !s.over && s.hasRoom() {
			s.used = a.clock.Now()
			return s
		}
	}
	return nil
}
