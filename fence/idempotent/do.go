package idempotent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
)

// Do does the effect, unless its record says that it is done. ctx is best the
// lease's own: where it tells the time left (fence.TimeLeft) nothing is begun after
// the stop time; when it ends, what is under way is settled still, within
// CallTimeout and ten times Timeout. The fence of the claim must be raised.
//
// nil: the effect is done, now or before. ErrUnrecorded: done too. ErrNotDone: it
// surely has not happened: the remote side has refused, or Lookup says so.
// fence.ErrUnknown: it may have happened; with
// Outcome.State Pending a later Do may find out, with Unknown a person has to.
// Otherwise, with State None, this try has done nothing: the lease was over, or the
// fence has refused it, and a later holder goes on.
//
// Several tries of one key at once do no harm, but each takes another's PENDING
// for that of one who has died.
func Do(ctx context.Context, s Store, c fence.Claim, e Effect) (Outcome, error) {
	if err := e.check(); err != nil {
		return Outcome{}, err
	}
	if err := c.Grant.Validate(); err != nil {
		return Outcome{}, err
	}
	e = e.withDefaults()
	if e.Lookup != nil {
		if err := lookup(ctx, s, c, e); err != nil {
			return Outcome{State: Pending}, err
		}
	}
	d := newDrive(ctx, s, c, e)
	out, err := verdict(e.Key, d.run())
	if out.State == Unknown && e.Lookup != nil && !out.Before {
		// Its own call, perhaps: the answer may have come to light by now.
		if err := lookup(ctx, s, c, e); err != nil {
			return out, err
		}
		switch r, failed := e.look(ctx, s); {
		case failed != nil:
		case r.State == Done:
			return Outcome{State: Done, Result: r.Result}, nil
		case r.State == None:
			return Outcome{}, fmt.Errorf("idempotent: %q: %w, as was found out after its answer was lost", e.Key, ErrNotDone)
		}
	}
	return out, err
}

// look reads the record, within Timeout.
func (e Effect) look(ctx context.Context, s Store) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	return s.Get(ctx, e.Key)
}

// lookup settles what an earlier try has left open, where that can be told.
func lookup(ctx context.Context, s Store, c fence.Claim, e Effect) error {
	was, err := e.look(ctx, s)
	if err != nil {
		return nil // the machine asks again
	}
	if was.State != Pending && was.State != Unknown || was.Grant.Token > c.Grant.Token {
		return nil
	}
	if err := fence.Over(ctx); err != nil {
		return fmt.Errorf("idempotent: %q: %w: it is %s, and may have happened: %w: %w", e.Key, fence.ErrUnknown, was, ErrLeaseOver, err)
	}
	asked, cancel := context.WithTimeout(ctx, e.CallTimeout)
	defer cancel()
	a, result, err := e.Lookup(asked, e.Key)
	if err != nil || a == Unclear {
		return nil
	}
	written, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	err = settle(written, s, c, e.Key, was, a == Happened, result)
	if errors.Is(err, fence.ErrChanged) { // somebody else has gone on; the machine goes by what there is
		return nil
	}
	return err
}

func newNonce() string { return strings.ToLower(rand.Text()[:16]) }

// clean makes a result one that every database keeps as it is.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// drive performs the effects of one machine. There is one request under way at a
// time, on a goroutine that ends when the store or the call returns.
type drive struct {
	ctx    context.Context // the caller's
	quiet  context.Context // with its values, and without its end
	store  Store
	claim  fence.Claim
	effect Effect
	m      *protocol.Payer
	clock  authority.BootClock

	answer chan protocol.Event // of the request under way; nil: none
	late   protocol.Event      // its answer, if none has come at its deadline
	due    *time.Timer         // that deadline
	alarm  *time.Timer
	closed *protocol.Closed
	panics chan any // of Call, to be raised on the caller's goroutine
}

func newDrive(ctx context.Context, s Store, c fence.Claim, e Effect) *drive {
	d := &drive{ctx: ctx, quiet: context.WithoutCancel(ctx), store: s, claim: c, effect: e, panics: make(chan any, 1)}
	d.m = protocol.NewPayer(protocol.PayerConfig{
		Key: e.Key, Grant: c.Grant, Stop: d.stop(), Nonce: newNonce(),
		TakesKeys: e.TakesKeys, Timeout: e.Timeout, CallTimeout: e.CallTimeout,
	})
	d.due, d.alarm = stopped(), stopped()
	return d
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// stop is until when the lease is held, as far as ctx tells. The clock is read
// first: a pause between the two makes it too early, never too late.
func (d *drive) stop() protocol.Instant {
	now := d.clock.Now()
	left, known := fence.TimeLeft(d.ctx)
	if !known {
		return math.MaxInt64
	}
	return now.Add(left)
}

func (d *drive) run() protocol.Closed {
	defer d.due.Stop()
	defer d.alarm.Stop()
	done := d.ctx.Done()
	d.step(protocol.Start{})
	for d.closed == nil {
		select {
		case e := <-d.answer:
			d.answered(e)
		case <-d.due.C:
			d.answered(d.late)
		case p := <-d.panics: // the record stays PENDING, as after a crash
			panic(p)
		case <-d.alarm.C:
			d.step(protocol.Tick{})
		case <-done:
			done = nil
			d.step(protocol.Cancel{Cause: context.Cause(d.ctx)})
		}
	}
	return *d.closed
}

func (d *drive) answered(e protocol.Event) {
	d.due.Stop()
	d.answer = nil
	d.step(e)
}

// step tells the machine first until when the lease is held, and of its end.
func (d *drive) step(e protocol.Event) {
	now := d.clock.Now()
	out := d.m.Step(now, protocol.Extended{Stop: d.stop()})
	if err := context.Cause(d.ctx); err != nil {
		out = append(out, d.m.Step(now, protocol.Cancel{Cause: err})...)
	}
	for _, effect := range append(out, d.m.Step(now, e)...) {
		d.perform(effect)
	}
}

func (d *drive) perform(effect protocol.Effect) {
	switch e := effect.(type) {
	case protocol.Arm:
		d.alarm.Stop()
		if e.At != 0 {
			d.alarm.Reset(max(0, e.At.Sub(d.clock.Now())))
		}
	case protocol.Fetch:
		d.ask(e.Deadline, protocol.Fetched{Try: e.Try, Err: context.DeadlineExceeded}, func(ctx context.Context) protocol.Event {
			r, err := d.store.Get(ctx, e.Key)
			return protocol.Fetched{Try: e.Try, Receipt: receipt(r), Err: err}
		})
	case protocol.Note:
		d.ask(e.Deadline, protocol.Noted{Try: e.Try, Err: context.DeadlineExceeded}, func(ctx context.Context) protocol.Event {
			err := d.store.Set(ctx, d.claim, e.Key, record(e.If), record(e.Receipt))
			if errors.Is(err, fence.ErrChanged) {
				err = fmt.Errorf("%w: %w", protocol.ErrConflict, err)
			}
			return protocol.Noted{Try: e.Try, Err: err}
		})
	case protocol.Call:
		d.ask(e.Deadline, protocol.Called{Try: e.Try, Err: context.DeadlineExceeded}, func(ctx context.Context) protocol.Event {
			// The last look at the lease: the process may have slept since the step.
			if err := fence.Over(d.ctx); err != nil {
				return protocol.Called{Try: e.Try, Err: notAsked{err}}
			}
			result, err := d.effect.Call(ctx, e.Key)
			return protocol.Called{Try: e.Try, Result: clean(result), Err: err}
		})
	case protocol.Closed:
		d.closed = &e
	}
}

// ask runs a request and makes sure of one answer, at its deadline at the latest.
func (d *drive) ask(deadline protocol.Instant, late protocol.Event, f func(ctx context.Context) protocol.Event) {
	left := max(0, deadline.Sub(d.clock.Now()))
	answer := make(chan protocol.Event, 1) // a late one is left in it
	d.answer, d.late = answer, late
	d.due.Reset(left)
	go func() {
		ctx, cancel := context.WithTimeout(d.quiet, left)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				d.panics <- p
			}
		}()
		answer <- f(ctx)
	}()
}

func receipt(r Record) protocol.Receipt {
	return protocol.Receipt{State: protocol.PayState(r.State), Grant: r.Grant, Nonce: r.Nonce, Result: r.Result}
}

func record(r protocol.Receipt) Record {
	return Record{State: State(r.State), Grant: r.Grant, Nonce: r.Nonce, Result: r.Result}
}
