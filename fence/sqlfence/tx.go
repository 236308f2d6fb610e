package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/fence"
)

// outcome is how far one transaction came.
type outcome int

const (
	notSent outcome = iota // COMMIT was never sent: surely nothing was written
	sent                   // COMMIT was sent; with an error, its effect is unknown
	ended                  // fn committed or rolled back behind our back
)

// try runs fn in one transaction on a connection of its own. A connection whose
// transaction did not end cleanly is closed, which ends it: it never goes back
// to the pool with a transaction open.
//
// ctx ends the transaction up to the moment that COMMIT is sent, and not after:
// database/sql would otherwise roll back at any moment and report a COMMIT that
// may have been applied as "context canceled".
func (f *Fence) try(ctx context.Context, opts *sql.TxOptions, fn func(context.Context, *sql.Tx) error) (how outcome, err error) {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return notSent, err
	}
	clean := false
	defer func() {
		if !clean {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		}
		_ = conn.Close()
	}()
	txCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	detach := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer detach()

	tx, err := conn.BeginTx(txCtx, opts)
	if err != nil {
		return notSent, err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked, or ended its goroutine
			_ = tx.Rollback()
		}
	}()
	err = fn(txCtx, tx)
	returned = true
	if err == nil && !detach() {
		err = fmt.Errorf("the context ended before COMMIT was sent: rolled back, nothing was written: %w", context.Cause(ctx))
	}
	if err != nil {
		rolled := tx.Rollback()
		clean = rolled == nil
		if errors.Is(rolled, sql.ErrTxDone) {
			return ended, err
		}
		return notSent, err
	}
	err = tx.Commit()
	clean = err == nil
	if errors.Is(err, sql.ErrTxDone) {
		return ended, nil
	}
	return sent, err
}

// begin is try, repeated as long as only the lock, or a connection that had
// died in the pool, was in the way. Both are definite: nothing was written.
// Once fn has set *started, nothing is repeated.
func (f *Fence) begin(ctx context.Context, opts *sql.TxOptions, started *bool, fn func(context.Context, *sql.Tx) error) (outcome, error) {
	var wait backoff
	var locked error // the last try that found the lock taken
	for dead := 0; ; {
		how, err := f.try(ctx, opts, fn)
		if how == ended && !*started { // our own code does not: ctx rolled back
			how = notSent
		}
		if err == nil || how != notSent || *started || refusal(err) {
			return how, err
		}
		if f.d.busy(err) {
			locked = err
		}
		switch {
		case ctx.Err() != nil:
			return how, f.tooLate(ctx, locked, err)
		case f.d.busy(err):
		case errors.Is(err, driver.ErrBadConn) && dead < 3:
			dead++
		default:
			return how, err
		}
		if !wait.sleep(ctx) {
			return how, f.tooLate(ctx, locked, err)
		}
	}
}

// ErrBusy: the store's lock was not to be had until the context ended. Nothing
// was written.
var ErrBusy = errors.New("the store is locked by somebody else")

func (f *Fence) tooLate(ctx context.Context, locked, last error) error {
	if locked != nil {
		return fmt.Errorf("%w until the context ended (%w): nothing was written. %s (the driver's last word: %v)",
			ErrBusy, context.Cause(ctx), f.d.held, locked)
	}
	return fmt.Errorf("%w (the last word was: %w)", context.Cause(ctx), last)
}

// repeat runs an fn that may be repeated: when the answer to a COMMIT is lost,
// doing it again settles it. again tells fn that it may have been applied
// before. The error matches fence.ErrUnknown if ctx, or the settle time after
// the lost answer, ended first.
func (f *Fence) repeat(ctx context.Context, what string, fn func(ctx context.Context, tx *sql.Tx, again bool) error) error {
	var wait backoff
	var lost error
	for {
		how, err := f.begin(ctx, nil, new(bool), func(ctx context.Context, tx *sql.Tx) error { return fn(ctx, tx, lost != nil) })
		switch {
		case err == nil:
			return nil
		case refusal(err):
			return err
		case how == sent && lost == nil:
			lost = err
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, f.settle)
			defer cancel()
		case how != sent && lost == nil:
			return f.explain(what, err)
		}
		if !wait.sleep(ctx) {
			return fmt.Errorf("sqlfence: %s: %w: the answer to COMMIT was lost (%w), and it could not be repeated in time (%v). Repeating it is harmless",
				what, fence.ErrUnknown, lost, err)
		}
	}
}

// refusal tells the fence's own answers, which are final.
func refusal(err error) bool {
	if err == errDone {
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
func (f *Fence) explain(what string, err error) error {
	if f.d.missing(err) {
		return fmt.Errorf("sqlfence: %s: nothing was written: %w. The fence's table is missing: run Migrate once, on the database that holds the data", what, err)
	}
	if errors.Is(err, ErrBusy) {
		return fmt.Errorf("sqlfence: %s: %w", what, err)
	}
	return fmt.Errorf("sqlfence: %s: nothing was written: %w", what, err)
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
