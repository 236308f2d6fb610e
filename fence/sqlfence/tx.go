package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// outcome is how far one transaction came.
type outcome int

const (
	notSent outcome = iota // COMMIT was never sent: surely nothing was written
	sent                   // COMMIT was sent; with an error, its effect is unknown
	ended                  // fn committed or rolled back behind our back
	gone                   // the database had ended the transaction before fn returned an error
	locked                 // COMMIT was refused because of a lock: surely nothing was written
)

// attempt is what a transaction is run with, and what became known of it.
type attempt struct {
	opts    *sql.TxOptions
	guarded bool // in: set a commit hook where there is one; out: there was one
	started bool // out: the caller's function ran, so that nothing is repeated
	refused bool // out: the hook refused a commit that InTx had not ordered
}

// try runs fn in one transaction on a connection of its own. A connection whose
// transaction did not end cleanly is closed, which ends it: it never goes back
// to the pool with a transaction open.
//
// ctx ends the transaction up to the moment that COMMIT is sent, and not after:
// database/sql would otherwise roll back at any moment and report a COMMIT that
// may have been applied as "context canceled".
func (f *Fence) try(ctx context.Context, a *attempt, fn func(context.Context, *sql.Tx) error) (how outcome, err error) {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return notSent, err
	}
	clean, g := false, &guard{conn: conn, hook: f.d.commitHook}
	defer func() {
		if !clean || g.open() != nil {
			_ = raw(conn, func(any) error { return driver.ErrBadConn }) // closes it
		}
		_ = conn.Close()
	}()
	if a.guarded && f.d.commitHook != nil {
		if err := g.close(); err != nil {
			return notSent, err
		}
	}
	a.guarded = g.set
	txCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	detach := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer detach()

	tx, err := conn.BeginTx(txCtx, a.opts)
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
		a.refused = g.no.Load()
		rolled := tx.Rollback()
		clean = rolled == nil
		switch {
		case errors.Is(rolled, sql.ErrTxDone):
			return ended, err
		case rolled != nil && f.d.gone(rolled):
			return gone, err
		}
		return notSent, err
	}
	g.order.Store(true)
	err = tx.Commit()
	clean = err == nil
	switch {
	case err == nil:
	case errors.Is(err, sql.ErrTxDone), f.d.gone(err):
		return ended, nil
	case f.d.locked(err):
		return locked, err
	}
	return sent, err
}

// begin is try, repeated as long as only the lock, or a connection that had
// died in the pool, was in the way. Both are definite: nothing was written.
// Once fn has set a.started, nothing is repeated.
func (f *Fence) begin(ctx context.Context, a *attempt, fn func(context.Context, *sql.Tx) error) (outcome, error) {
	var wait backoff
	var taken error // the last try that found the lock taken
	var held string // and by whom
	guarded := a.guarded
	for dead := 0; ; {
		a.guarded = guarded
		how, err := f.try(ctx, a, fn)
		blocked := f.d.held
		if how == locked {
			blocked = f.d.reader
		}
		switch {
		case a.started:
		case err != nil && how != sent: // our own code stops at its first error, and ends nothing
			how = notSent
		case err == nil && how == ended:
			how, err = sent, errors.New("the transaction was gone at COMMIT")
		}
		if err == nil || how != notSent || a.started || refusal(err) {
			return how, err
		}
		if f.d.busy(err) {
			taken, held = err, blocked
		}
		switch {
		case ctx.Err() != nil:
			return how, tooLate(ctx, taken, held, err)
		case f.d.busy(err):
		case errors.Is(err, driver.ErrBadConn) && dead < 3:
			dead++
		default:
			return how, err
		}
		if !wait.sleep(ctx) {
			return how, tooLate(ctx, taken, held, err)
		}
	}
}

// ErrBusy: the store's lock was not to be had until the context ended, or not
// when InTx sent COMMIT. Nothing was written.
var ErrBusy = errors.New("the store is locked by somebody else")

func tooLate(ctx context.Context, taken error, held string, last error) error {
	if taken != nil {
		return fmt.Errorf("%w until the context ended (%w): nothing was written. %s (the driver's last word: %v)",
			ErrBusy, context.Cause(ctx), held, taken)
	}
	return fmt.Errorf("%w (the last word was: %w)", context.Cause(ctx), last)
}
