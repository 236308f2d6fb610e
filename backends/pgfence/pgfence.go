// Package pgfence keeps fences in PostgreSQL through pgx, beside the data that
// they guard: it is fence/sqlfence for those who use pgx itself, its pools and
// its COPY, in place of database/sql.
//
//	fences, err := pgfence.New(pool, pgfence.Options{})
//	claim, err := fences.Raise(ctx, "billing", lease.Grant()) // first act, before any read
//	err = fences.InTx(ctx, claim, pgx.TxOptions{}, func(tx pgx.Tx) error {
//		_, err := tx.CopyFrom(ctx, pgx.Identifier{"invoices"}, columns, rows)
//		return err
//	})
//
// Both work on the same table at once. The pool may lead through a transaction
// pooler (pgbouncer), with default_query_exec_mode=exec or simple_protocol as
// pgx wants it there.
package pgfence

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlcore"
)

// Own says that the fence's columns lie in a table of the caller's.
type Own = sqlcore.Own

// Options sets up a Fence. The zero value is the default; each setting is as in
// sqlfence.Options.
type Options struct {
	// Table is the table that Migrate makes. Default "stint_fence".
	Table string
	// Own makes Table a table of the caller's, with the fence's columns in it.
	Own *Own
	// Settle bounds how long the outcome of a lost COMMIT is looked for. Default 5 s.
	Settle time.Duration
	// LockTimeout is how long Raise, Bar and Settle wait for the fence's row
	// before they end the session that holds it. Default 3 s.
	LockTimeout time.Duration
	// IdleTimeout is the longest that a transaction of InTx may sit idle at the
	// server, if less time is not left anyway. Default 30 s. A client that stops
	// inside COPY is not idle: only a successor's Raise ends it.
	IdleTimeout time.Duration
}

// Fence is a fence.Fence over one table. It is safe for concurrent use. The pool
// stays the caller's, to configure and to close.
type Fence struct {
	engine *sqlcore.Engine
}

var _ fence.Fence = (*Fence)(nil)

// New makes a Fence over pool. It returns every bad setting in one error and
// does not touch the database: Migrate makes the table.
func New(pool *pgxpool.Pool, o Options) (*Fence, error) {
	var bad []error
	if pool == nil {
		bad = append(bad, errors.New("the *pgxpool.Pool is nil"))
	}
	e, err := sqlcore.New(&store{statements{pool}, pool}, sqlcore.Options{
		Package: "pgfence", Dialect: sqlcore.PostgreSQL, Table: o.Table, Own: o.Own,
		Settle: o.Settle, LockTimeout: o.LockTimeout, IdleTimeout: o.IdleTimeout,
	}, bad...)
	if err != nil {
		return nil, err
	}
	return &Fence{e}, nil
}

// What errors match; each is as in fence/sqlfence, and the same value.
var (
	ErrBusy       = sqlcore.ErrBusy       // the row's lock was not to be had until the context ended
	ErrBlocked    = sqlcore.ErrBlocked    // a session holds the row and could not be ended; it is named
	ErrNested     = sqlcore.ErrNested     // called inside the function of InTx
	ErrRolledBack = sqlcore.ErrRolledBack // the function went on after a statement's error
	ErrEnded      = sqlcore.ErrEnded      // the function ended the transaction itself
)
