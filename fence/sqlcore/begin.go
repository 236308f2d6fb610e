package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/stint-dev/stint/fence"
)

// ErrBusy: the store's lock was not to be had until the context ended, or not
// when InTx sent COMMIT. Nothing was written.
var ErrBusy = errors.New("the store is locked by somebody else")

// begin is Try, repeated as long as only a lock, a conflict with another
// transaction, or a connection that had died was in the way. All are definite:
// nothing was written. Once fn has set a.Started, nothing is repeated.
func (e *Engine) begin(ctx context.Context, a *Attempt, fn func(context.Context, Tx) error) (Outcome, error) {
	var wait backoff
	var last blocked
	guarded := a.Guarded
	if e.d.readCommitted && a.Options == nil && !guarded {
		a.Isolation = ReadCommitted
	}
	for dead := 0; ; {
		a.Guarded, a.Drop = guarded, false
		how, err := e.db.Try(ctx, a, func(ctx context.Context, tx Tx) error {
			err := fn(ctx, tx)
			a.Drop = err != nil && e.d.kind(err) == readOnly
			return err
		})
		var by = e.d.held
		if how == Locked {
			by = e.d.reader
		}
		switch {
		case a.Started:
		case err != nil && how != Sent: // our own code stops at its first error, and ends nothing
			how = NotSent
		case err == nil && how == Ended:
			how, err = Sent, errors.New("the transaction was gone at COMMIT")
		}
		if err == nil || how != NotSent || a.Started || refusal(err) {
			return how, err
		}
		what := e.d.kind(err)
		if what == tooLong && a.over != nil { // the locking statement sets that bound itself: see lockWait
			what = timedOut
		}
		if what == timedOut && a.over != nil {
			if err := e.endHolder(ctx, *a.over); err != nil {
				return how, err
			}
		}
		switch what {
		case busy, timedOut:
			last = blocked{err, by}
		}
		switch {
		case ctx.Err() != nil:
			return how, e.tooLate(ctx, a, last, err)
		case what == busy || what == timedOut || what == conflict:
		case (e.db.Dead(err) || what == cut || what == readOnly) && dead < 3:
			dead++
		default:
			return how, err
		}
		if !wait.sleep(ctx) {
			return how, e.tooLate(ctx, a, last, err)
		}
	}
}

// blocked is the last try that found the lock taken, and by whom.
type blocked struct {
	err error
	by  string
}

// tooLate says why nothing was to be had until ctx ended: who holds the lock,
// where that can be told.
func (e *Engine) tooLate(ctx context.Context, a *Attempt, last blocked, err error) error {
	if e.d.holder != nil && a.name != "" {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s, err := e.d.holder.find(short, e, a.name); err == nil && s.known() {
			last.by = e.d.held + ". It is " + s.String() + ". " + e.d.holder.remedy(s)
			if last.err == nil {
				last.err = errors.New("it waited for the row's lock")
			}
		}
	}
	if last.err != nil {
		return fmt.Errorf("%w until the context ended (%w): nothing was written. %s (the driver's last word: %v)",
			ErrBusy, context.Cause(ctx), last.by, last.err)
	}
	if errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w (the last word was: %w)", context.Cause(ctx), err)
}

// Retryable tells an error after which the same transaction, run again, may well
// succeed: a serialization failure or deadlock, a lock that was not to be had in
// time, a session that the server ended, a server that takes no writes because
// another is the primary now, or that takes no connection. An error of InTx that matches fence.ErrUnknown is
// repeated as well, but as InTx says.
func (e *Engine) Retryable(err error) bool {
	if err == nil || refusal(err) {
		return false
	}
	switch e.d.kind(err) {
	case busy, timedOut, conflict, cut, readOnly:
		return true
	}
	return errors.Is(err, ErrBusy) || e.db.Dead(err) || refused(err)
}

// refused tells that no connection came about, so that nothing was sent. A host of
// whose name nobody knows is a mistake, and stays one.
func refused(err error) bool {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// refusal tells the fence's own answers, which are final.
func refusal(err error) bool {
	if err == errDone || err == errFresh {
		return true
	}
	for _, target := range []error{fence.ErrStale, fence.ErrRepeated, fence.ErrNoFence, fence.ErrNotRaised, fence.ErrChanged, fence.ErrSequence} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// explain says what a definite failure means.
func (e *Engine) explain(what string, err error) error {
	done := "nothing was written"
	if _, half := errors.AsType[halfway](err); half {
		done = "what was made so far stays, and repeating it is harmless"
	}
	switch e.d.kind(err) {
	case missing:
		return e.errorf("%s: %s: %w. The fence's table is missing, or lacks a column: run Migrate (stint migrate URL) once, on the database that holds the data", what, done, err)
	case readOnly:
		return e.errorf("%s: %s: %w. The server takes no writes: it is a standby, or another server was made the primary. Connect to that one "+
			"(for PostgreSQL: all hosts in the DSN and target_session_attrs=read-write); it may be repeated", what, done, err)
	case denied:
		return e.errorf("%s: %s: %w. Grant what is missing; see docs/sql.md, \"Rights\"", what, done, err)
	}
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrBlocked) {
		return e.errorf("%s: %w", what, err)
	}
	return e.errorf("%s: %s: %w", what, done, err)
}

// backoff waits between tries: 1 ms, doubled up to 100 ms, less up to a half by
// chance so that many waiters do not come at once.
type backoff struct{ next time.Duration }

func (b *backoff) sleep(ctx context.Context) bool {
	b.next = min(max(2*b.next, time.Millisecond), 100*time.Millisecond)
	t := time.NewTimer(b.next - rand.N(b.next/2))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
