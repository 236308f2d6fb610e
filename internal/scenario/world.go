package scenario

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
)

// Timeline is the time that a world lives in: virtual, or that of a runtime.
type Timeline interface {
	Now() authority.Instant
	// After runs f once the time has passed.
	After(d time.Duration, f func())
}

// World is an authority behind a network with faults. It is small on purpose:
// what is tested is the holder.
type World struct {
	time   Timeline
	script Script

	mu     sync.Mutex
	counts map[protocol.Op]int
	token  fence.Token
	grant  authority.Grant // the living or last one
	until  authority.Instant
	rival  authority.Grant
	line   []string // waiters
	wakes  map[string]func()
}

// NewWorld makes the world of a script.
func NewWorld(s Script, t Timeline) *World {
	return &World{time: t, script: s, counts: map[protocol.Op]int{}, wakes: map[string]func(){}}
}

// Call sends a request over the network; deliver is called with its answer,
// unless a fault swallows it. The deadline is the caller's to keep.
func (w *World) Call(op protocol.Op, r authority.Request, g authority.Grant, deliver func(protocol.Answer)) {
	w.mu.Lock()
	w.counts[op]++
	fault := w.script.Faults[Nth{op, w.counts[op]}]
	w.mu.Unlock()
	if fault.DropRequest {
		return
	}
	half := w.script.RTT/2 + time.Duration(op)*w.script.Skew
	answer := func(a protocol.Answer) {
		if !fault.DropAnswer {
			w.time.After(half+fault.DelayAnswer, func() { deliver(a) })
		}
	}
	w.time.After(half+fault.DelayRequest, func() {
		w.apply(op, r, g, answer)
		if fault.Twice {
			w.apply(op, r, g, func(protocol.Answer) {})
		}
	})
}

func (w *World) apply(op protocol.Op, r authority.Request, g authority.Grant, answer func(protocol.Answer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := protocol.Answer{Op: op}
	switch op {
	case protocol.OpAcquire:
		a.Grant, a.Err = w.acquire(r)
	case protocol.OpRenew:
		a.Grant, a.Err = w.renew(g)
	case protocol.OpRelease:
		a.Err = w.release(g)
	case protocol.OpInspect:
		a.State = w.state()
	case protocol.OpLeave:
		w.leave(r.Waiter)
	case protocol.OpWait:
		if len(w.line) > 0 && w.line[0] == r.Waiter && !w.state().Held {
			break // it is free already
		}
		w.wakes[r.Waiter] = func() { answer(a) }
		return
	}
	answer(a)
}

func (w *World) state() authority.State {
	s := authority.State{Name: "job", Grant: w.grant.Grant, Length: w.grant.Length, Holder: holderOf(w.grant), Waiters: len(w.line)}
	if left := w.until.Sub(w.time.Now()); left > 0 {
		s.Held, s.Left = true, left
	}
	return s
}

func holderOf(g authority.Grant) string {
	if g.Nonce == "rival" {
		return "rival"
	}
	return "the holder"
}

func (w *World) acquire(r authority.Request) (authority.Grant, error) {
	s := w.state()
	switch {
	case s.Held && s.Grant.Nonce == r.Nonce:
		return w.grant, nil
	case s.Held, len(w.line) > 0 && w.line[0] != r.Waiter:
		if r.Waiter != "" && !slices.Contains(w.line, r.Waiter) {
			w.line = append(w.line, r.Waiter)
		}
		return authority.Grant{}, &authority.HeldError{State: s, Ahead: max(0, slices.Index(w.line, r.Waiter))}
	}
	w.leave(r.Waiter)
	w.token++
	w.grant = authority.Grant{Grant: fence.Grant{Token: w.token, Nonce: r.Nonce}, Name: "job", Length: r.Length}
	w.extend()
	return w.grant, nil
}

func (w *World) extend() {
	w.until = w.time.Now().Add(w.grant.Length)
	until := w.until
	w.time.After(w.grant.Length, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.until == until {
			w.wakeFirst()
		}
	})
}

func (w *World) renew(g authority.Grant) (authority.Grant, error) {
	if s := w.state(); !s.Held || s.Grant != g.Grant {
		return authority.Grant{}, &authority.NotHeldError{Grant: g.Grant, State: s}
	}
	w.extend()
	return w.grant, nil
}

func (w *World) release(g authority.Grant) error {
	s := w.state()
	if s.Grant != g.Grant {
		return &authority.NotHeldError{Grant: g.Grant, State: s}
	}
	if s.Held {
		w.until = w.time.Now()
		w.wakeFirst()
	}
	return nil
}

func (w *World) leave(waiter string) {
	w.line = slices.DeleteFunc(w.line, func(s string) bool { return s == waiter })
	delete(w.wakes, waiter)
}

func (w *World) wakeFirst() {
	if len(w.line) == 0 {
		return
	}
	if wake := w.wakes[w.line[0]]; wake != nil {
		delete(w.wakes, w.line[0])
		wake()
	}
}

// Do performs a step that is the world's own; it reports whether it was one.
func (w *World) Do(s Step) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s.What {
	case "rival":
		if g, err := w.acquire(authority.Request{Nonce: "rival", Length: s.For}); err == nil {
			w.rival = g
		}
	case "rival-release":
		_ = w.release(w.rival)
	case "break":
		_ = w.release(w.grant)
	default:
		return false
	}
	return true
}

// Authority is the world as the runtime sees it.
func (w *World) Authority() authority.Authority {
	if w.script.Queuer {
		return queuer{remote{w}}
	}
	return remote{w}
}

type remote struct{ w *World }

func (r remote) call(ctx context.Context, op protocol.Op, req authority.Request, g authority.Grant) protocol.Answer {
	answers := make(chan protocol.Answer, 2)
	r.w.Call(op, req, g, func(a protocol.Answer) { answers <- a })
	select {
	case a := <-answers:
		return a
	case <-ctx.Done():
		return protocol.Answer{Op: op, Err: ctx.Err()}
	}
}

func (r remote) Acquire(ctx context.Context, req authority.Request) (authority.Grant, error) {
	a := r.call(ctx, protocol.OpAcquire, req, authority.Grant{})
	return a.Grant, a.Err
}

func (r remote) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	a := r.call(ctx, protocol.OpRenew, authority.Request{}, g)
	return a.Grant, a.Err
}

func (r remote) Release(ctx context.Context, g authority.Grant) error {
	return r.call(ctx, protocol.OpRelease, authority.Request{}, g).Err
}

func (r remote) Inspect(ctx context.Context, name string) (authority.State, error) {
	a := r.call(ctx, protocol.OpInspect, authority.Request{Name: name}, authority.Grant{})
	return a.State, a.Err
}

func (r remote) Close() error { return nil }

type queuer struct{ remote }

func (q queuer) Wait(ctx context.Context, req authority.Request) error {
	if err := q.call(ctx, protocol.OpWait, req, authority.Grant{}).Err; ctx.Err() == nil {
		return err
	}
	return nil
}

func (q queuer) Leave(ctx context.Context, req authority.Request) error {
	return q.call(ctx, protocol.OpLeave, req, authority.Grant{}).Err
}
