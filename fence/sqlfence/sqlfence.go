// Package sqlfence keeps fences in an SQL database, beside the data that they
// guard, so that the check and the write are one transaction.
//
//	fences, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.PostgreSQL})
//	claim, err := fences.Raise(ctx, "billing", lease.Grant()) // first act, before any read
//	err = fences.InTx(ctx, claim, nil, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO invoices …")
//		return err
//	})
//
// It speaks database/sql only and links no driver. What it does on which
// database, and what it needs there, is told in docs/sql.md.
package sqlfence

import (
	"database/sql"
	"errors"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlcore"
)

// Dialect names a database's SQL.
type Dialect = sqlcore.Dialect

// The databases, with any driver of database/sql.
const (
	SQLite     = sqlcore.SQLite     // in any journal mode
	PostgreSQL = sqlcore.PostgreSQL // 13 or later; at any isolation level, through a transaction pooler too
	MariaDB    = sqlcore.MariaDB    // 10.6 or later; at any isolation level, with or without clientFoundRows. Not MySQL
)

// Own says that the fence's columns lie in a table of the caller's.
type Own = sqlcore.Own

// Options sets up a Fence. Dialect is required; the rest has defaults.
type Options struct {
	// Dialect is the database that the *sql.DB talks to.
	Dialect Dialect
	// Table is the table that Migrate makes, and the stem of the names of its
	// index, its companion table and its SQL functions. Default "stint_fence".
	// Letters, digits and '_', at most 48.
	Table string
	// Own makes Table a table of the caller's, with the fence's columns beside the
	// data of the job. Raise then makes no row: a job without one is refused with
	// fence.ErrNoFence. Prune is refused.
	Own *Own
	// Settle bounds how long the outcome of a COMMIT whose answer was lost is
	// looked for, even when the caller's context has ended. Default 5 s.
	Settle time.Duration
	// LockTimeout is how long Raise, Bar and Settle wait for the fence's row
	// before they end the session that holds it: that of a predecessor who froze
	// inside its transaction. They do so only by a grant that the committed row
	// lets in. Default 3 s. MariaDB is faster with whole seconds, where many raise
	// one name. SQLite has no sessions.
	LockTimeout time.Duration
	// IdleTimeout is the longest that a transaction of InTx may sit idle at the
	// server. It is less where the context tells the time left (fence.TimeLeft; the
	// context of a stint.Lease does). Default 30 s; MariaDB counts whole seconds.
	// Not for SQLite.
	IdleTimeout time.Duration
}

// Fence is a fence.Fence over one table. It is safe for concurrent use. The
// *sql.DB stays the caller's, to configure and to close.
type Fence struct {
	db     *sql.DB
	engine *sqlcore.Engine
}

var _ fence.Fence = (*Fence)(nil)

// New makes a Fence over db. It returns every bad setting in one error and does
// not touch the database: Migrate makes the table.
func New(db *sql.DB, o Options) (*Fence, error) {
	var bad []error
	if db == nil {
		bad = append(bad, errors.New("the *sql.DB is nil"))
	}
	e, err := sqlcore.New(&store{statements{db}, db, o.Dialect}, sqlcore.Options{
		Package: "sqlfence", Dialect: o.Dialect, Table: o.Table, Own: o.Own,
		Settle: o.Settle, LockTimeout: o.LockTimeout, IdleTimeout: o.IdleTimeout,
	}, bad...)
	if err != nil {
		return nil, err
	}
	return &Fence{db, e}, nil
}

// What errors match.
var (
	// ErrBusy: the store's lock was not to be had until the context ended, or not
	// when InTx sent COMMIT. Nothing was written.
	ErrBusy = sqlcore.ErrBusy
	// ErrBlocked: another session holds the fence's row for longer than
	// Options.LockTimeout, and it could not be ended: the right is missing. The
	// error names it and says what to do. Nothing was written.
	ErrBlocked = sqlcore.ErrBlocked
	// ErrNested: a method that writes was called by the function given to InTx. It
	// would wait for the transaction that it is itself part of. Nothing was
	// written by it.
	ErrNested = sqlcore.ErrNested
	// ErrRolledBack: the database had rolled the transaction back by itself before
	// the function given to InTx returned. Return the first error of any
	// statement. The error says whether anything was written after that.
	ErrRolledBack = sqlcore.ErrRolledBack
	// ErrEnded: the function given to InTx committed or rolled back the
	// transaction itself. The error says which.
	ErrEnded = sqlcore.ErrEnded
)
