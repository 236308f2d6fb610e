package gate

import (
	"context"
	"errors"
	"sync"

	"github.com/stint-dev/stint/fence"
)

// Pass is one admitted request. Its methods are safe for concurrent use.
type Pass struct {
	gate   *Gate
	claim  fence.Claim
	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
	done   chan struct{}
}

// Context is what the handler runs in: it carries the claim (FromContext), and is
// done when the request's own is, when the handler has left, or, with
// Options.Drain, when a later holder was admitted. Then its cause is a
// *fence.StaleError.
func (p *Pass) Context() context.Context { return p.ctx }

// Claim is the request's name and grant.
func (p *Pass) Claim() fence.Claim { return p.claim }

// Check asks the fence again whether the grant is still the latest: for handlers
// that live long, as those of streams do. With Options.Drain it also says that
// the handler was told to end.
func (p *Pass) Check(ctx context.Context) error {
	err := p.gate.f.Check(ctx, p.claim)
	if late := p.Overtaken(); late != nil { // in place of "context canceled", too
		return late
	}
	return err
}

// Overtaken is the *fence.StaleError with which a later holder has ended the
// handler's context, or nil. What the handler had done until then stands.
func (p *Pass) Overtaken() error {
	var stale *fence.StaleError
	if errors.As(context.Cause(p.ctx), &stale) {
		return stale
	}
	return nil
}

// Leave says that the handler has returned. It may be called again.
func (p *Pass) Leave() {
	p.once.Do(func() {
		p.gate.unregister(p)
		close(p.done)
		p.cancel(nil)
	})
}

type key struct{}

// FromContext is the claim under which a request was admitted: what its handler
// hands to sqlfence.InTx, or to another fence, beside the write. It is false
// outside of a Pass.
//
// Each request has a claim of its own, for one writer at a time. A handler that
// makes several transactions, while its holder has other requests under way,
// takes a fresh one for each (fence.Resume with the same name and grant).
func FromContext(ctx context.Context) (fence.Claim, bool) {
	c, ok := ctx.Value(key{}).(fence.Claim)
	return c, ok
}

// Drains reports whether a later holder may end the handler (Options.Drain).
func (p *Pass) Drains() bool { return p.gate.o.Drain > 0 }
