package stint

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
)

// Lease is the holder's side of a grant. It is safe for concurrent use.
//
// A lease is over when its stop time passes, and then stays over: the process
// may have been paused for longer than the lease just before any line, so check
// Err before every action, and let the resource check the token.
type Lease struct {
	rt      *runtime
	request authority.Request
	serial  uint64
	parent  context.Context
	notify  notify

	// Owned by the loop.
	machine *protocol.Holder
	at      authority.Instant // of the timer; zero: none
	place   int               // in the heap
	calls   []call
	gone    bool
	running bool // the machine is live

	// Written before result is sent, read after it was received.
	grant  authority.Grant
	ctx    context.Context
	cancel context.CancelCauseFunc
	unhook func() bool

	result  chan error    // nil: granted
	settled chan struct{} // closed when settleErr is set
	settle  error

	stop    atomic.Int64
	beat    atomic.Int64
	starved atomic.Bool
	end     atomic.Pointer[LostError]

	mu    sync.Mutex
	stats Status
}

// notify is whom to tell of what happens while waiting.
type notify struct {
	waiting  func(authority.State)
	retrying func(error)
}

// call is a request under way.
type call struct {
	op       protocol.Op
	recalled bool
	try      int
	cancel   context.CancelFunc // nil: it goes in a round
	round    *round             // nil until that is sent
}

// Name returns the name that is held.
func (l *Lease) Name() string { return l.request.Name }

// Token returns the fencing token: higher than that of every earlier holder.
func (l *Lease) Token() fence.Token { return l.grant.Token }

// Grant returns what a fence checks: the token and the nonce. Its string form is
// what travels to other processes.
func (l *Lease) Grant() fence.Grant { return l.grant.Grant }

// Context returns a context that is done when the lease is over, with a
// *LostError as its cause. It descends from the one that was given to Acquire:
// if that ends first, the cause is its own, and Err says so a moment later.
func (l *Lease) Context() context.Context { return l.ctx }

// Err returns nil while the lease is inside its stop time, and a *LostError
// once it is over. It is the check before every action: it takes no lock,
// allocates nothing while the lease is good, and reads the clock once, so it is
// right even if no timer has fired yet (the process was stopped, or the machine
// slept).
func (l *Lease) Err() error {
	now := int64(l.rt.clock.Now())
	stop := l.stop.Load()
	if now < stop {
		return nil
	}
	return l.over(now, stop)
}

// over makes sure that what was found over stays over: a renewal whose answer is
// being noted at this very moment either comes first or not at all.
func (l *Lease) over(now, stop int64) error {
	for stop != ended && !l.stop.CompareAndSwap(stop, ended) {
		if stop = l.stop.Load(); now < stop {
			return nil // it came first
		}
	}
	return l.lost()
}

// ended stands for the stop time of a lease that is over.
const ended = math.MinInt64

func (l *Lease) lost() error {
	if e := l.end.Load(); e != nil {
		return e
	}
	// The loop has not come to it yet.
	return &LostError{Name: l.Name(), Token: l.Token(), Reason: ErrExpired}
}

// Beat is a sign of life of the work; see Options.BeatWithin. It is cheap
// enough for every turn of a loop.
func (l *Lease) Beat() {
	l.beat.Store(int64(l.rt.clock.Now()))
	if l.starved.CompareAndSwap(true, false) {
		l.rt.post(posted{lease: l, event: protocol.Beat{At: authority.Instant(l.beat.Load())}})
	}
}

// Release gives the lease back, so that the next holder need not wait for it to
// run out. Call it when the work has returned: Context is done from here on, and
// after Release has returned no renewal is sent. Only this very grant is
// released, and calling Release again gives the same answer.
//
// nil says that the authority confirmed it. An error that matches
// authority.ErrNotHeld says that the lease had ended before; any other, that the
// release could not be confirmed yet. If ctx ends first, the release goes on in
// the background, until the authority has let go by itself.
func (l *Lease) Release(ctx context.Context) error {
	l.rt.post(posted{lease: l, event: protocol.Release{}})
	select {
	case <-l.settled:
	case <-l.rt.done:
	case <-ctx.Done():
	}
	select {
	case <-l.settled: // preferred, whatever else happened
		return l.settle
	default:
	}
	select {
	case <-l.rt.done:
		return fmt.Errorf("stint: the release of %q was not confirmed: %w; the lease runs out by itself", l.Name(), ErrClosed)
	default:
		return fmt.Errorf("stint: the release of %q is not confirmed yet and goes on in the background: %w", l.Name(), context.Cause(ctx))
	}
}

// Status is a lease at one moment.
type Status struct {
	Held     bool
	Stop     authority.Instant // the stop time, on the host's boot clock
	Left     time.Duration     // until then; zero when the lease is over
	Renewals int
	Retries  int // requests that had no definite answer
	// LastErr is set while the last request had no definite answer: the lease is
	// still good, but the authority cannot be reached.
	LastErr error
}

// Status returns the lease's present state.
func (l *Lease) Status() Status {
	l.mu.Lock()
	s := l.stats
	l.mu.Unlock()
	s.Stop = authority.Instant(l.stop.Load())
	if now := l.rt.clock.Now(); now < s.Stop {
		s.Held, s.Left = true, s.Stop.Sub(now)
	}
	return s
}

// The rest is called by the loop.

func (l *Lease) addCall(c call) { l.calls = append(l.calls, c) }

// call finds a request under way; nil: it is over.
func (l *Lease) call(op protocol.Op, try int) *call {
	for i := range l.calls {
		if c := &l.calls[i]; c.op == op && c.try == try {
			return c
		}
	}
	return nil
}

func (l *Lease) dropCall(op protocol.Op, try int) {
	for i, c := range l.calls {
		if c.op == op && c.try == try {
			l.calls = slices.Delete(l.calls, i, i+1) // clears the rest: it keeps no context
			return
		}
	}
}

func (l *Lease) recall(op protocol.Op) {
	for i := range l.calls {
		c := &l.calls[i]
		if c.op != op || c.recalled {
			continue
		}
		c.recalled = true
		switch {
		case c.cancel != nil:
			c.cancel()
		case c.round != nil:
			c.round.leave()
		}
	}
}

// note takes the effects that are news.
func (l *Lease) note(e protocol.Effect) {
	switch e := e.(type) {
	case protocol.Granted:
		l.granted(e)
	case protocol.Starved:
		l.starved.Store(true)
	case protocol.Trouble:
		l.mu.Lock()
		l.stats.Retries++
		l.stats.LastErr = e.Err
		l.mu.Unlock()
		if l.notify.retrying != nil {
			l.notify.retrying(e.Err)
		}
	case protocol.Waiting:
		if l.notify.waiting != nil {
			l.notify.waiting(e.Held.State)
		}
	case protocol.Ended:
		l.endWith(e.End)
	case protocol.Settled:
		l.settleWith(e.Err)
	}
}

// kept moves the stop time, unless Err has found the lease over.
func (l *Lease) kept(stop authority.Instant) bool {
	l.mu.Lock()
	l.stats.Renewals++
	l.stats.LastErr = nil
	l.mu.Unlock()
	for {
		was := l.stop.Load()
		if was == ended {
			return false
		}
		if l.stop.CompareAndSwap(was, int64(stop)) {
			return true
		}
	}
}

func (l *Lease) granted(e protocol.Granted) {
	l.grant = e.Grant
	l.ctx, l.cancel = context.WithCancelCause(l.parent)
	l.mu.Lock()
	l.stats.LastErr = nil
	l.mu.Unlock()
	l.stop.Store(int64(e.Stop))
	// Renewal is bound to the context: the lease of an abandoned work runs out.
	l.unhook = context.AfterFunc(l.parent, func() {
		l.rt.post(posted{lease: l, event: protocol.Cancel{Cause: context.Cause(l.parent)}})
	})
	l.result <- nil
}

func (l *Lease) endWith(end protocol.End) {
	if l.ctx == nil { // never granted
		l.result <- acquireError(l.Name(), end)
		return
	}
	lost := lostError(l.Name(), l.Token(), end)
	// In this order, so that whoever sees the lease over also sees why.
	l.end.Store(lost)
	l.stop.Store(ended)
	l.cancel(lost)
	l.unhook()
}

func (l *Lease) settleWith(err error) {
	if l.gone {
		return
	}
	l.gone = true
	if err != nil {
		err = fmt.Errorf("stint: releasing %q: %w", l.Name(), err)
	}
	l.settle = err
	close(l.settled)
}

// quit is the machine's end. A lease that was never released has run out at the
// authority by now.
func (l *Lease) quit() {
	if l.ctx == nil {
		return
	}
	if e := l.end.Load(); !l.gone && e != nil {
		l.settleWith(fmt.Errorf("%w: %w", authority.ErrNotHeld, e))
	}
}
