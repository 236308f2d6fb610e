package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence/sqlcore"
)

// store is a *sql.DB as the engine wants it.
type store struct {
	statements // each on its own, by whatever connection is free
	db         *sql.DB
	d          Dialect
}

// sender is a *sql.DB or a *sql.Tx.
type sender interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// statements is a sender as the engine wants it.
type statements struct{ sender }

func (s statements) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := s.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s statements) Query(ctx context.Context, query string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := s.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return sqlcore.Each(rows, each)
}

func (s *store) Identity() any { return s.db }

func (s *store) Dead(err error) bool { return errors.Is(err, driver.ErrBadConn) }

func (s *store) Over(err error) bool { return errors.Is(err, sql.ErrTxDone) }

// Try runs fn in one transaction on a connection of its own. A connection whose
// transaction did not end cleanly is closed, which ends it: it never goes back
// to the pool with a transaction open.
//
// ctx ends the transaction up to the moment that COMMIT is sent, and not after:
// database/sql would otherwise roll back at any moment and report a COMMIT that
// may have been applied as "context canceled".
func (s *store) Try(ctx context.Context, a *sqlcore.Attempt, fn func(context.Context, sqlcore.Tx) error) (how sqlcore.Outcome, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return sqlcore.NotSent, err
	}
	clean, g := false, &guard{conn: conn}
	defer func() {
		if !clean || a.Drop || g.open() != nil || after(ctx, conn, a.After) != nil {
			_ = raw(conn, func(any) error { return driver.ErrBadConn }) // closes it
		}
		_ = conn.Close()
	}()
	if a.Guarded && s.d == SQLite {
		if err := g.close(); err != nil {
			return sqlcore.NotSent, err
		}
	}
	a.Guarded = g.set
	if a.Before != "" {
		if _, err := conn.ExecContext(ctx, a.Before); err != nil {
			return sqlcore.NotSent, err
		}
	}
	how, clean, err = s.run(ctx, conn, g, a, fn)
	return how, err
}

func after(ctx context.Context, conn *sql.Conn, statement string) error {
	if statement == "" {
		return nil
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := conn.ExecContext(short, statement)
	return err
}

// run is Try on a connection. clean: its transaction has surely ended.
func (s *store) run(ctx context.Context, conn *sql.Conn, g *guard, a *sqlcore.Attempt, fn func(context.Context, sqlcore.Tx) error) (how sqlcore.Outcome, clean bool, err error) {
	txCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	detach := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer detach()

	tx, err := conn.BeginTx(txCtx, txOptions(a))
	if err != nil {
		return sqlcore.NotSent, false, err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked, or ended its goroutine
			_ = tx.Rollback()
		}
	}()
	err = fn(txCtx, statements{tx})
	returned = true
	state := byte(inTransaction)
	if err == nil && s.d == PostgreSQL {
		state = status(conn)
	}
	if err == nil && state != failed && !detach() {
		err = fmt.Errorf("the context ended before COMMIT was sent: rolled back, nothing was written: %w", context.Cause(ctx))
	}
	if err != nil || state != inTransaction {
		a.Refused = g.no.Load()
		a.ByStatement = state == noTransaction
		rolled := tx.Rollback()
		return s.undone(rolled, state), rolled == nil, err
	}
	g.order.Store(true)
	err = tx.Commit()
	switch {
	case err == nil:
		return sqlcore.Sent, true, nil
	case errors.Is(err, sql.ErrTxDone), s.d.IsOver(err):
		return sqlcore.Ended, false, nil
	case s.d.Unlocked(err):
		return sqlcore.Locked, false, err
	case s.d.GaveUp(err):
		return sqlcore.Aborted, false, err
	}
	return sqlcore.Sent, false, err
}

// undone is how a transaction ended that was not to be committed.
func (s *store) undone(rolled error, state byte) sqlcore.Outcome {
	switch {
	case errors.Is(rolled, sql.ErrTxDone), state == noTransaction:
		return sqlcore.Ended
	case state == failed:
		return sqlcore.Aborted
	case rolled != nil && s.d.IsOver(rolled):
		return sqlcore.Gone
	}
	return sqlcore.NotSent
}

func txOptions(a *sqlcore.Attempt) *sql.TxOptions {
	if o, ok := a.Options.(*sql.TxOptions); ok {
		return o
	}
	switch a.Isolation {
	case sqlcore.ReadUncommitted:
		return &sql.TxOptions{Isolation: sql.LevelReadUncommitted}
	case sqlcore.ReadCommitted:
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}
