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
//
// There may be many thousands: what only some of them need is made when it is
// asked for, and what all of a client's have in common is the client's.
type Lease struct {
	c       *Client
	machine *protocol.Holder

	// Owned by the loop.
	at      authority.Instant // of the timer; zero: none
	place   int32             // in the heap
	sibling int32             // in family.leases
	running bool              // the machine is live
	granted bool
	queues  bool // keeps a place in the line
	calls   []call
	lone    [1]call // room for one
	family  *family
	result  chan<- error // nil: granted; until it is sent

	stop    atomic.Int64
	beat    atomic.Int64
	starved atomic.Bool
	end     atomic.Pointer[LostError]

	mu      sync.Mutex
	history history
	ctx     context.Context // nil: nobody has asked for it
	cancel  context.CancelCauseFunc
	gone    bool          // settle is set
	settled chan struct{} // closed then; nil: nobody waits for it
	settle  error

	serial uint64
	parent context.Context
	name   string
	prefix string      // of its nonces
	grant  fence.Grant // written before the result is sent, read after it was received
}

// history is what has happened to a lease, for Status.
type history struct {
	renewals, retries uint32
	lastErr           error
}

// call is a request under way.
type call struct {
	try      int
	cancel   context.CancelFunc // nil: it goes in a round
	round    *round             // nil until that is sent
	op       protocol.Op
	recalled bool
}

// Name returns the name that is held.
func (l *Lease) Name() string { return l.name }

// Token returns the fencing token: higher than that of every earlier holder.
func (l *Lease) Token() fence.Token { return l.grant.Token }

// Grant returns what a fence checks: the token and the nonce. Its string form is
// what travels to other processes.
func (l *Lease) Grant() fence.Grant { return l.grant }

// Context returns a context that is done when the lease is over, with a
// *LostError as its cause. It descends from the one that was given to Acquire:
// if that ends first, the cause is its own, and Err says so a moment later.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil {
		return l.ctx
	}
	over := l.end.Load()
	if over == nil {
		l.ctx, l.cancel = context.WithCancelCause(fence.WithTimeLeft(l.parent, l.left))
		return l.ctx
	}
	// It would be done by now, whatever has become of its parent since.
	l.ctx, l.cancel = context.WithCancelCause(fence.WithTimeLeft(context.WithoutCancel(l.parent), l.left))
	if over.Reason == ErrCancelled {
		l.cancel(over.Err)
	} else {
		l.cancel(over)
	}
	return l.ctx
}

// Err returns nil while the lease is inside its stop time, and a *LostError
// once it is over. It is the check before every action: it takes no lock,
// allocates nothing while the lease is good, and reads the clock once, so it is
// right even if no timer has fired yet (the process was stopped, or the machine
// slept).
func (l *Lease) Err() error {
	now := int64(l.c.rt.clock.Now())
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

// left is the time to the stop time, for what is to end with the lease elsewhere.
func (l *Lease) left() time.Duration {
	stop := l.stop.Load()
	if stop == ended {
		return 0
	}
	return time.Duration(stop - int64(l.c.rt.clock.Now()))
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
	l.beat.Store(int64(l.c.rt.clock.Now()))
	if l.starved.CompareAndSwap(true, false) {
		l.c.rt.post(posted{lease: l, event: protocol.Beat{At: authority.Instant(l.beat.Load())}})
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
	l.c.rt.await(ctx, posted{lease: l, event: protocol.Release{}}, nil)
	settled := l.whenSettled()
	select {
	case <-settled:
	case <-l.c.rt.done:
	case <-ctx.Done():
	}
	select {
	case <-settled: // preferred, whatever else happened
		return l.settle
	default:
	}
	select {
	case <-l.c.rt.done:
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
	h := l.history
	l.mu.Unlock()
	s := Status{Renewals: int(h.renewals), Retries: int(h.retries), LastErr: h.lastErr}
	s.Stop = authority.Instant(l.stop.Load())
	if now := l.c.rt.clock.Now(); now < s.Stop {
		s.Held, s.Left = true, s.Stop.Sub(now)
	}
	return s
}

// request is what an acquire, a wait and a leave ask for.
func (l *Lease) request() authority.Request {
	r := authority.Request{Name: l.name, Length: l.c.o.TTL, Nonce: l.prefix, Holder: l.c.o.Holder}
	if l.queues {
		r.Waiter = l.prefix
	}
	return r
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
		l.grantedWith(e)
	case protocol.Starved:
		l.starved.Store(true)
	case protocol.Trouble:
		l.mu.Lock()
		l.history.retries++
		l.history.lastErr = e.Err
		l.mu.Unlock()
		if tell := l.c.o.Retrying; tell != nil {
			tell(e.Err)
		}
	case protocol.Waiting:
		if tell := l.c.o.Waiting; tell != nil {
			tell(e.Held.State)
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
	l.history.renewals++
	l.history.lastErr = nil
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

func (l *Lease) grantedWith(e protocol.Granted) {
	l.granted, l.grant = true, e.Grant.Grant
	l.mu.Lock()
	l.history.lastErr = nil
	l.mu.Unlock()
	l.stop.Store(int64(e.Stop))
	// Renewal is bound to the context: the lease of an abandoned work runs out.
	l.c.rt.families.join(l)
	l.tell(nil)
}

// tell ends the caller's Acquire.
func (l *Lease) tell(result error) {
	l.result <- result
	l.result = nil
}

func (l *Lease) endWith(end protocol.End) {
	if !l.granted {
		l.tell(acquireError(l.Name(), end))
		return
	}
	lost := lostError(l.Name(), l.Token(), end)
	// In this order, so that whoever sees the lease over also sees why.
	l.end.Store(lost)
	l.stop.Store(ended)
	l.mu.Lock()
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(lost)
	}
	l.c.rt.families.leave(l)
}

// whenSettled returns what is closed when settle is set.
func (l *Lease) whenSettled() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled = make(chan struct{})
		if l.gone {
			close(l.settled)
		}
	}
	return l.settled
}

func (l *Lease) settleWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	l.gone = true
	if err != nil {
		err = fmt.Errorf("stint: releasing %q: %w", l.Name(), err)
	}
	l.settle = err
	if l.settled != nil {
		close(l.settled)
	}
}

// quit is the machine's end. A lease that was never released has run out at the
// authority by now.
func (l *Lease) quit() {
	if !l.granted {
		return
	}
	if e := l.end.Load(); e != nil && !l.gone {
		l.settleWith(fmt.Errorf("%w: %w", authority.ErrNotHeld, e))
	}
}
