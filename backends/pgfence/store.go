package pgfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/fence/sqlcore"
)

// store is a pool as the engine wants it.
type store struct {
	statements // each on its own, by whatever connection is free
	pool       *pgxpool.Pool
}

// sender is a pool, a connection or a transaction.
type sender interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// statements is a sender as the engine wants it.
type statements struct{ sender }

func (s statements) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := s.sender.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (s statements) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := s.sender.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return sqlcore.Each(rows, each)
}

func (s *store) Identity() any { return s.pool }

// Dead: pgx says that nothing of the request was sent.
func (s *store) Dead(err error) bool { return pgconn.SafeToRetry(err) }

func (s *store) Over(err error) bool { return errors.Is(err, pgx.ErrTxClosed) }

// What PostgreSQL says with each answer about the connection's transaction.
const (
	inTransaction = 'T'
	failed        = 'E'
	noTransaction = 'I'
)

// undo bounds a ROLLBACK, and everything else that is done for order's sake on a
// connection that may be broken.
const undo = 5 * time.Second

// Try runs fn in one transaction on a connection of its own. A connection whose
// transaction did not end cleanly is closed, which ends it: it never goes back
// to the pool with a transaction open.
func (s *store) Try(ctx context.Context, a *sqlcore.Attempt, fn func(context.Context, sqlcore.Tx) error) (how sqlcore.Outcome, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return sqlcore.NotSent, err
	}
	clean := false
	defer func() {
		if !clean || a.Drop {
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), undo)
			defer cancel()
			_ = conn.Conn().Close(short)
		}
		conn.Release() // a closed one leaves the pool
	}()
	a.Guarded = false
	tx, err := conn.BeginTx(ctx, txOptions(a))
	if err != nil {
		return sqlcore.NotSent, err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked, or ended its goroutine
			_ = rollback(ctx, tx)
		}
	}()
	err = fn(ctx, statements{tx})
	returned = true
	state := conn.Conn().PgConn().TxStatus()
	if err == nil && state == inTransaction && ctx.Err() != nil {
		err = fmt.Errorf("the context ended before COMMIT was sent: rolled back, nothing was written: %w", context.Cause(ctx))
	}
	if err != nil || state != inTransaction {
		rolled := rollback(ctx, tx)
		clean = rolled == nil
		if err == nil || errors.Is(rolled, pgx.ErrTxClosed) {
			return undone(a, rolled, state), err
		}
		return sqlcore.NotSent, err
	}
	// Not ctx: a COMMIT that may have been applied must not be reported as
	// "context canceled".
	err = tx.Commit(context.WithoutCancel(ctx))
	switch {
	case err == nil:
		clean = true
	case errors.Is(err, pgx.ErrTxClosed):
		return sqlcore.Ended, nil
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return sqlcore.Aborted, err
	}
	return sqlcore.Sent, err
}

// undone is how a transaction ended that was not to be committed although fn
// returned nil, or that fn has ended.
func undone(a *sqlcore.Attempt, rolled error, state byte) sqlcore.Outcome {
	switch {
	case errors.Is(rolled, pgx.ErrTxClosed):
		return sqlcore.Ended
	case state == noTransaction:
		a.ByStatement = true
		return sqlcore.Ended
	case state == failed:
		return sqlcore.Aborted
	}
	return sqlcore.NotSent
}

func rollback(ctx context.Context, tx pgx.Tx) error {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), undo)
	defer cancel()
	return tx.Rollback(short)
}

func txOptions(a *sqlcore.Attempt) pgx.TxOptions {
	if o, ok := a.Options.(pgx.TxOptions); ok {
		return o
	}
	if a.Isolation == sqlcore.ReadCommitted {
		return pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	}
	return pgx.TxOptions{}
}
