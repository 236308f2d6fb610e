// Package gate admits requests of leaseholders to the handlers of one process:
// what fence/httpfence and the gRPC interceptors have in common.
//
//	g, err := gate.New(fences, gate.Options{Drain: 5 * time.Second})
//	p, err := g.Enter(ctx, "billing", grant)
//	if err != nil {
//		return err // *fence.StaleError: a later holder was admitted
//	}
//	defer p.Leave()
//	handle(p.Context())
//
// A gate alone promises the order of admission, and no more: after a request of
// token 12 was admitted, none of token 7 is. A request of token 7 that was
// admitted before may still be on its way, and its effect may land after that of
// 12. Two things close that gap: a write that is admitted in its own transaction
// (sqlfence.InTx with FromContext's claim), or Options.Drain, where every handler
// that has effects runs in this one process.
package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Options sets up a Gate. The zero value raises the fence at the first request
// of each grant and does not drain.
type Options struct {
	// Drain, if above zero, lets a handler begin only when no handler of a lower
	// token of the same name runs in this process. Their contexts are ended, with
	// a *fence.StaleError as the cause, and a request waits at most Drain for them
	// to return; then it is refused with a *BusyError, and did not run.
	Drain time.Duration
	// LetFinish leaves the contexts of the lower tokens' handlers alone: they are
	// waited for only.
	LetFinish bool
	// CheckOnly never raises: the holder has to raise the fence itself, by another
	// way, before its first request. Otherwise that is refused (fence.ErrNotRaised,
	// fence.ErrNoFence).
	CheckOnly bool
}

// Gate admits requests by a fence. It is safe for concurrent use. One Gate may
// serve several servers of the process; then they drain together.
type Gate struct {
	f fence.Fence
	o Options

	mu sync.Mutex
	in map[string]map[*Pass]struct{} // by name; only where Drain is set
}

// New makes a Gate. A fence.Memory forgets what it refused when the process
// ends: after a restart, the first token that comes is let in, be it an old one.
// A fence in a database does not.
//
// f.Check must see every raise that has returned before: a database's primary,
// not a replica that lags behind it.
func New(f fence.Fence, o Options) (*Gate, error) {
	var bad []error
	if f == nil {
		bad = append(bad, errors.New("the fence is nil"))
	}
	if o.Drain < 0 {
		bad = append(bad, fmt.Errorf("drain %v is negative", o.Drain))
	}
	if o.LetFinish && o.Drain == 0 {
		bad = append(bad, errors.New("LetFinish without Drain: nothing is waited for; set Drain to how long"))
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("gate: %w", errors.Join(bad...))
	}
	return &Gate{f: f, o: o, in: map[string]map[*Pass]struct{}{}}, nil
}

// Enter admits one request of a grant. Its errors mean that nothing was run:
// those of fence.Fence (ErrStale, ErrRepeated and, with CheckOnly, ErrNotRaised
// and ErrNoFence), a *BusyError after Options.Drain, ctx's cause, or a fence that
// cannot be asked. After a Pass, Leave must be called when the handler has
// returned.
func (g *Gate) Enter(ctx context.Context, name string, grant fence.Grant) (*Pass, error) {
	claim, err := fence.Resume(name, grant)
	if err != nil {
		return nil, err
	}
	p := &Pass{gate: g, claim: claim, done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(context.WithValue(ctx, key{}, claim))
	// Registered before it is admitted: a later token that is admitted after this
	// one finds it, and waits.
	g.register(p)
	inside := false
	defer func() {
		if !inside { // a panic of the fence's keeps no later holder out, either
			p.Leave()
		}
	}()
	err = g.admit(p.ctx, claim)
	if err == nil {
		err = g.drain(p)
	}
	if late := p.Overtaken(); err != nil && late != nil { // in place of "context canceled"
		err = late
	}
	if err != nil {
		return nil, err
	}
	inside = true
	return p, nil
}

// admit looks first: a grant that was admitted before costs a read, and a
// finished job is not marked RUNNING again by a late request of its holder.
func (g *Gate) admit(ctx context.Context, c fence.Claim) error {
	err := g.f.Check(ctx, c)
	raise := errors.Is(err, fence.ErrNotRaised) || errors.Is(err, fence.ErrNoFence)
	if !raise || g.o.CheckOnly {
		return err
	}
	_, err = g.f.Raise(ctx, c.Name, c.Grant)
	return err
}

func (g *Gate) register(p *Pass) {
	if g.o.Drain == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in[p.claim.Name] == nil {
		g.in[p.claim.Name] = map[*Pass]struct{}{}
	}
	g.in[p.claim.Name][p] = struct{}{}
}

func (g *Gate) unregister(p *Pass) {
	if g.o.Drain == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.in[p.claim.Name], p)
	if len(g.in[p.claim.Name]) == 0 {
		delete(g.in, p.claim.Name)
	}
}

// lower lists who is inside with a lower token. Whoever registers later is
// refused, because p was admitted already; so one look is enough.
func (g *Gate) lower(p *Pass) []*Pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*Pass
	for q := range g.in[p.claim.Name] {
		if q.claim.Grant.Token < p.claim.Grant.Token {
			all = append(all, q)
		}
	}
	return all
}

func (g *Gate) drain(p *Pass) error {
	if g.o.Drain == 0 {
		return nil
	}
	older := g.lower(p)
	if len(older) == 0 {
		return context.Cause(p.ctx) // of a still higher token, or nil
	}
	if !g.o.LetFinish {
		for _, q := range older {
			q.cancel(&fence.StaleError{Name: p.claim.Name, Presented: q.claim.Grant.Token, Fence: p.claim.Grant.Token})
		}
	}
	late := time.NewTimer(g.o.Drain)
	defer late.Stop()
	for _, q := range older {
		select {
		case <-q.done:
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		case <-late.C:
			return g.busy(p, older)
		}
	}
	return context.Cause(p.ctx)
}

func (g *Gate) busy(p *Pass, older []*Pass) error {
	e := &BusyError{Name: p.claim.Name, Token: p.claim.Grant.Token, Waited: g.o.Drain}
	for _, q := range older {
		select {
		case <-q.done:
		default:
			e.Running = append(e.Running, q.claim.Grant.Token)
		}
	}
	slices.Sort(e.Running)
	e.Running = slices.Compact(e.Running)
	return e
}

// BusyError: handlers of lower tokens have not returned in time. The request was
// not run, and may be repeated. The lower tokens are shut out of the fence, so
// no new handler of theirs begins; but one that does not listen to its context
// keeps every later holder waiting in this process until it returns or the
// process ends.
type BusyError struct {
	Name    string
	Token   fence.Token   // of the request that was refused
	Running []fence.Token // of the handlers that still run, ascending
	Waited  time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("fence %q: after %v, handlers of earlier tokens %v still run in this process: the request of token %d was not run, so nothing of it was written. "+
		"Repeat it; if it stays so, a handler ignores the end of its context, and only its return or the end of the process helps",
		e.Name, e.Waited, e.Running, e.Token)
}
