package sqlcore

import (
	"context"
	"errors"
)

// Tx runs statements, in an open transaction or (a DB) each on its own.
type Tx interface {
	// Exec returns the number of rows changed.
	Exec(ctx context.Context, query string, args ...any) (changed int64, err error)
	// Query calls each for every row; scan takes pointers to int64 and string.
	Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error
}

// DB is a database behind some client library. Its own Exec and Query use
// whatever connection is free. Errors are the library's own, wrapped or not.
type DB interface {
	Tx
	// Try runs fn in one transaction on a connection of its own, and says how far
	// it came. ctx ends the transaction up to the moment that COMMIT is sent, and
	// not after. A connection whose transaction did not end cleanly is closed.
	Try(ctx context.Context, a *Attempt, fn func(context.Context, Tx) error) (Outcome, error)
	// Identity is the same for everything that waits for the same transactions:
	// the pool.
	Identity() any
	// Dead tells an error of a connection that had died before it was used.
	Dead(err error) bool
	// Over tells the library's own error that the transaction is no longer open.
	Over(err error) bool
}

// Each calls each for every row of rows, which any client library has; for a
// Tx's Query.
func Each(rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}, each func(scan func(dest ...any) error) error) error {
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Isolation is an isolation level that the engine asks for.
type Isolation int

// The levels; zero is the session's own.
const (
	ReadUncommitted Isolation = 1
	ReadCommitted   Isolation = 2
)

// Outcome is how far one transaction came.
type Outcome int

// The outcomes.
const (
	NotSent Outcome = iota // COMMIT was never sent: surely nothing was written
	Sent                   // COMMIT was sent; with an error, its effect is unknown
	Ended                  // fn committed or rolled back behind our back
	Gone                   // the database had ended the transaction before COMMIT
	Aborted                // the database refused to commit because of an earlier error: surely nothing was written
	Locked                 // COMMIT was refused because of a lock: surely nothing was written
)

// Attempt is what a transaction is run with, and what became known of it.
type Attempt struct {
	// Options are the caller's for the transaction; nil: the library's default.
	Options any
	// Isolation is the level for a transaction of the engine's own; never
	// together with Options.
	Isolation Isolation
	// Before and After are run on the connection before BEGIN and after the end,
	// if they are not empty. Where After fails the connection is closed.
	Before, After string
	// Guarded in: refuse every commit but the one that ends Try, where that can
	// be done. Out: it was done.
	Guarded bool
	// Drop, out: fn found the server of no use (read-only, say): the connection
	// is closed, so that the next one may lead elsewhere.
	Drop bool
	// Started, out: the caller's function ran, so that nothing is repeated.
	Started bool
	// ByStatement, out: fn ended the transaction by an SQL statement, so that the
	// client library went on as if it were open.
	ByStatement bool
	// Refused, out: something else than the end of Try wanted to commit.
	Refused bool

	name string // of the row that the transaction locks first
	over *right // in: whoever holds that row past the lock timeout is ended by this right
}

// IsOver, GaveUp and Unlocked classify errors for the DB: the database's own
// word that no transaction is open, that a COMMIT ended in a rollback, and that
// a COMMIT was refused because of a lock.
func (d Dialect) IsOver(err error) bool { return dialects[d].gone(err) }

// GaveUp tells COMMIT's error that the transaction had failed before and was
// rolled back in place of being committed.
func (d Dialect) GaveUp(err error) bool { return dialects[d].aborted(err) }

// Unlocked tells COMMIT's error that a lock was in the way, and nothing written.
func (d Dialect) Unlocked(err error) bool { return dialects[d].locked(err) }

// Placeholders writes each '?' of a query as the database wants it.
func (d Dialect) Placeholders(query string) string { return dialects[d].placeholders(query) }

var errNoRow = errors.New("no row")

// one runs a query for at most one row; without one the error is errNoRow.
func one(ctx context.Context, tx Tx, query string, args []any, dest ...any) error {
	found := false
	err := tx.Query(ctx, query, args, func(scan func(dest ...any) error) error {
		found = true
		return scan(dest...)
	})
	if err == nil && !found {
		err = errNoRow
	}
	return err
}

// exactlyOne runs a statement that has to change exactly one row.
func (e *Engine) exactlyOne(ctx context.Context, tx Tx, query string, args ...any) error {
	n, err := tx.Exec(ctx, query, args...)
	if err == nil && n != 1 {
		err = e.errorf("a statement changed %d rows where it must change 1: %s", n, query)
	}
	return err
}
