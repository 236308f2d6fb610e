// Package faulty puts a fault layer over any authority: it loses requests and
// answers one by one, as a network or a crash would. It does not import
// testing, so that programs which tests start can link it.
package faulty

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

// ErrDropped is what the caller gets for a request or an answer that was lost.
// Like any plain error it means "perhaps".
var ErrDropped = errors.New("faulty: connection lost")

// Fault says what happens to one request. The zero value lets it pass.
type Fault struct {
	DropRequest bool          // it never reaches the authority
	DropAnswer  bool          // it is carried out, its answer is lost
	Hang        bool          // the loss shows as silence until the context is done
	Before      time.Duration // how long it is on its way to the authority
	After       time.Duration // how long its answer is on the way back
}

// The plain kinds.
var (
	Pass        = Fault{}
	DropRequest = Fault{DropRequest: true}
	DropAnswer  = Fault{DropAnswer: true}
)

// Delay holds up the request for d before it reaches the authority.
func Delay(d time.Duration) Fault { return Fault{Before: d} }

// Plan decides about the n-th request (from 1) of an operation: "acquire",
// "renew", "release", "inspect", "wait" or "leave", and "renewall" of a Bulk. It
// is called under a lock.
type Plan func(op string, n int) Fault

// Authority is an authority with faults. It has the optional interfaces
// Queuer, Lister, Timing and Describer; see New.
type Authority struct {
	inner authority.Authority
	plan  Plan

	mu     sync.Mutex
	counts map[string]int
}

// New puts plan over inner; a nil plan lets everything pass. If inner has no
// Queuer, Wait returns when its context is done or after 10 ms, which is a
// plain poll. If it has no Lister, List is empty.
func New(inner authority.Authority, plan Plan) *Authority {
	return &Authority{inner: inner, plan: plan, counts: map[string]int{}}
}

// Bulk is an Authority that is an authority.BulkRenewer too.
type Bulk struct{ *Authority }

// NewBulk is New for an inner authority that is a BulkRenewer; otherwise
// RenewAll renews one by one.
func NewBulk(inner authority.Authority, plan Plan) Bulk { return Bulk{New(inner, plan)} }

// RenewAll implements authority.BulkRenewer. A fault is one of all its grants.
func (b Bulk) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	answers, err := do(ctx, b.Authority, "renewall", func() ([]authority.Renewal, error) {
		if bulk, ok := b.inner.(authority.BulkRenewer); ok {
			return bulk.RenewAll(ctx, grants), nil
		}
		answers := make([]authority.Renewal, len(grants))
		for i, g := range grants {
			answers[i].Grant, answers[i].Err = b.inner.Renew(ctx, g)
		}
		return answers, nil
	})
	if err != nil {
		answers = make([]authority.Renewal, len(grants))
		for i := range answers {
			answers[i].Err = err
		}
	}
	return answers
}

// SetPlan changes the plan; counting goes on.
func (a *Authority) SetPlan(plan Plan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan = plan
}

// Count says how many requests of an operation were made so far.
func (a *Authority) Count(op string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[op]
}

func (a *Authority) fault(op string) Fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[op]++
	if a.plan == nil {
		return Pass
	}
	return a.plan(op, a.counts[op])
}

// do performs one request with its fault.
func do[T any](ctx context.Context, a *Authority, op string, f func() (T, error)) (T, error) {
	var none T
	fault := a.fault(op)
	if err := sleep(ctx, fault.Before); err != nil {
		return none, err
	}
	if fault.DropRequest {
		return none, lost(ctx, fault)
	}
	v, err := f()
	if fault.DropAnswer {
		return none, lost(ctx, fault)
	}
	if e := sleep(ctx, fault.After); e != nil {
		return none, e
	}
	return v, err
}

func lost(ctx context.Context, f Fault) error {
	if f.Hang {
		<-ctx.Done()
		return errors.Join(ErrDropped, ctx.Err())
	}
	return ErrDropped
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errors.Join(ErrDropped, ctx.Err())
	}
}

// Acquire implements authority.Authority.
func (a *Authority) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	return do(ctx, a, "acquire", func() (authority.Grant, error) { return a.inner.Acquire(ctx, r) })
}

// Renew implements authority.Authority.
func (a *Authority) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	return do(ctx, a, "renew", func() (authority.Grant, error) { return a.inner.Renew(ctx, g) })
}

// Release implements authority.Authority.
func (a *Authority) Release(ctx context.Context, g authority.Grant) error {
	_, err := do(ctx, a, "release", func() (struct{}, error) { return struct{}{}, a.inner.Release(ctx, g) })
	return err
}

// Inspect implements authority.Authority.
func (a *Authority) Inspect(ctx context.Context, name string) (authority.State, error) {
	return do(ctx, a, "inspect", func() (authority.State, error) { return a.inner.Inspect(ctx, name) })
}

// Close closes the inner authority.
func (a *Authority) Close() error { return a.inner.Close() }

// Wait implements authority.Queuer.
func (a *Authority) Wait(ctx context.Context, r authority.Request) error {
	_, err := do(ctx, a, "wait", func() (struct{}, error) {
		if q, ok := a.inner.(authority.Queuer); ok {
			return struct{}{}, q.Wait(ctx, r)
		}
		_ = sleep(ctx, 10*time.Millisecond) // a done context is no error of Wait
		return struct{}{}, nil
	})
	return err
}

// Leave implements authority.Queuer.
func (a *Authority) Leave(ctx context.Context, r authority.Request) error {
	_, err := do(ctx, a, "leave", func() (struct{}, error) {
		if q, ok := a.inner.(authority.Queuer); ok {
			return struct{}{}, q.Leave(ctx, r)
		}
		return struct{}{}, nil
	})
	return err
}

// List implements authority.Lister, without faults.
func (a *Authority) List(ctx context.Context) iter.Seq2[authority.State, error] {
	if l, ok := a.inner.(authority.Lister); ok {
		return l.List(ctx)
	}
	return func(func(authority.State, error) bool) {}
}

// Lateness implements authority.Timing; zero if the inner authority states none.
func (a *Authority) Lateness() time.Duration {
	if t, ok := a.inner.(authority.Timing); ok {
		return t.Lateness()
	}
	return 0
}

// Describe implements authority.Describer.
func (a *Authority) Describe() string {
	if d, ok := a.inner.(authority.Describer); ok {
		return d.Describe() + " (with faults)"
	}
	return "an authority with faults"
}
