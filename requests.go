package stint

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// send begins a request. Its answer comes back through post.
func (rt *runtime) send(l *Lease, s protocol.Send) {
	ctx, cancel := rt.callContext(s.Deadline)
	l.addCall(call{op: s.Op, try: s.Try, cancel: cancel})
	if rt.starter != nil && (s.Op == protocol.OpAcquire || s.Op == protocol.OpRelease) {
		if rt.carrier == l && rt.carried == nil && rt.begun.Load() == 0 {
			rt.calls.group.Add(1)
			rt.begun.Add(1)
			rt.carried = &errand{ctx, cancel, l, s}
			return
		}
		rt.outbox = append(rt.outbox, job{started, func() { rt.start(ctx, cancel, l, s) }})
		return
	}
	rt.outbox = append(rt.outbox, job{kindOf(s.Op), func() {
		a := protocol.Answer{Op: s.Op, Try: s.Try}
		if a.Err = notSent(ctx); a.Err == nil {
			rt.call(ctx, l, s, &a)
		}
		cancel()
		rt.post(posted{lease: l, event: a})
	}})
}

// errand is a request that is sent by the goroutine which waits for its outcome.
type errand struct {
	ctx    context.Context
	cancel context.CancelFunc
	lease  *Lease
	send   protocol.Send
}

// await is drive for a lease's caller, who has nothing else to do until the
// outcome is there. So where nothing is under way, it also sends the request that
// its event leads to: nobody else has to be woken for it, and nobody to tell it.
// When ctx is done first, givenUp is called, and has to end the request; nil: it is
// given up by this goroutine, and repeated by the loop. One that is to be sent
// although ctx is done is left to others.
func (rt *runtime) await(ctx context.Context, p posted, givenUp func()) bool {
	carrier := p.lease
	if ctx.Err() != nil {
		carrier = nil
	}
	e, ok := rt.put(p, rt.alone(), carrier)
	if e == nil {
		return ok
	}
	if givenUp == nil {
		givenUp = e.cancel
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, givenUp)()
	}
	a := protocol.Answer{Op: e.send.Op, Try: e.send.Try}
	if a.Err = notSent(e.ctx); a.Err == nil {
		rt.call(e.ctx, e.lease, e.send, &a)
	}
	e.cancel()
	rt.begun.Add(-1)
	rt.drive(posted{lease: e.lease, event: a})
	rt.calls.group.Done()
	return true
}

// start begins a request that nobody waits for.
func (rt *runtime) start(ctx context.Context, cancel context.CancelFunc, l *Lease, s protocol.Send) {
	answered := func(g authority.Grant, err error) {
		cancel()
		rt.begun.Add(-1)
		rt.drive(posted{lease: l, event: protocol.Answer{Op: s.Op, Try: s.Try, Grant: g, Err: err}})
		rt.calls.group.Done()
	}
	rt.calls.group.Add(1)
	rt.begun.Add(1)
	switch err := notSent(ctx); {
	case err != nil:
		answered(authority.Grant{}, err)
	case s.Op == protocol.OpAcquire:
		rt.starter.StartAcquire(ctx, l.requestOf(s), answered)
	default:
		rt.starter.StartRelease(ctx, s.Grant, func(err error) { answered(authority.Grant{}, err) })
	}
}

func kindOf(op protocol.Op) kind {
	switch op {
	case protocol.OpWait:
		return lasting
	case protocol.OpAcquire, protocol.OpInspect:
		return patient
	}
	return urgent
}

// notSent says why a request does not leave any more, if so.
func notSent(ctx context.Context) error {
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded: // too many were under way
		return fmt.Errorf("%w: %d others were under way until its time was over", protocol.ErrNotSent, maxCalls)
	default: // a recalled request is never sent
		return ctx.Err()
	}
}

func (rt *runtime) callContext(deadline authority.Instant) (context.Context, context.CancelFunc) {
	if deadline == 0 {
		return context.WithCancel(rt.calls.ctx)
	}
	return context.WithTimeout(rt.calls.ctx, max(0, deadline.Sub(rt.now())))
}

func (rt *runtime) call(ctx context.Context, l *Lease, s protocol.Send, a *protocol.Answer) {
	r := l.requestOf(s)
	switch s.Op {
	case protocol.OpAcquire:
		a.Grant, a.Err = rt.authority.Acquire(ctx, r)
	case protocol.OpRenew:
		a.Grant, a.Err = rt.authority.Renew(ctx, s.Grant)
	case protocol.OpRelease:
		a.Err = rt.authority.Release(ctx, s.Grant)
	case protocol.OpInspect:
		a.State, a.Err = rt.authority.Inspect(ctx, r.Name)
	case protocol.OpWait:
		a.Err = rt.queuer.Wait(ctx, r)
	case protocol.OpLeave:
		a.Err = rt.queuer.Leave(ctx, r)
	}
}

// requestOf is what a Send asks for.
func (l *Lease) requestOf(s protocol.Send) authority.Request {
	r := l.request()
	if s.Nonce != "" {
		r.Nonce = s.Nonce
	}
	return r
}
