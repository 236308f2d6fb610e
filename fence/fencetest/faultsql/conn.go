package faultsql

import (
	"context"
	"database/sql/driver"
	"errors"
)

// conn has none of the driver's short cuts for statements: database/sql then
// prepares each, and each is one request.
type conn struct {
	driver.Conn
	c      *connector
	broken bool // used by one goroutine at a time, as every driver.Conn
}

// Raw is the driver's own connection, for what a test or a fence asks of it
// beside requests (a commit hook, say).
func (c *conn) Raw() driver.Conn { return c.Conn }

// do sends one request.
func (c *conn) do(op Op, query string, send func() error) error {
	if c.broken {
		return driver.ErrBadConn
	}
	r := Request{N: c.c.n.Add(1), Op: op, Query: query}
	if err := c.c.hook(r, Before); err != nil {
		return c.fault(err)
	}
	if err := send(); err != nil {
		return err
	}
	if err := c.c.hook(r, After); err != nil {
		return c.fault(err)
	}
	return nil
}

func (c *conn) fault(err error) error {
	c.broken = errors.Is(err, ErrLost)
	return err
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	var inner driver.Tx
	err := c.do(Begin, "", func() (err error) {
		if b, ok := c.Conn.(driver.ConnBeginTx); ok {
			inner, err = b.BeginTx(ctx, o)
			return err
		}
		//lint:ignore SA1019 for drivers that have nothing else
		inner, err = c.Conn.Begin()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &tx{inner, c}, nil
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.broken {
		return nil, driver.ErrBadConn
	}
	var s driver.Stmt
	var err error
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		s, err = p.PrepareContext(ctx, query)
	} else {
		s, err = c.Conn.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{s, c, query}, nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !c.broken && (!ok || v.IsValid())
}

type tx struct {
	inner driver.Tx
	c     *conn
}

func (t *tx) Commit() error   { return t.c.do(Commit, "", t.inner.Commit) }
func (t *tx) Rollback() error { return t.c.do(Rollback, "", t.inner.Rollback) }

type stmt struct {
	driver.Stmt
	c     *conn
	query string
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.c.do(Exec, s.query, func() (err error) {
		if e, ok := s.Stmt.(driver.StmtExecContext); ok {
			res, err = e.ExecContext(ctx, args)
			return err
		}
		//lint:ignore SA1019 for drivers that have nothing else
		res, err = s.Stmt.Exec(plain(args))
		return err
	})
	return res, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.c.do(Query, s.query, func() (err error) {
		if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
			rows, err = q.QueryContext(ctx, args)
			return err
		}
		//lint:ignore SA1019 for drivers that have nothing else
		rows, err = s.Stmt.Query(plain(args))
		return err
	})
	if err != nil && rows != nil { // the answer was lost
		_ = rows.Close()
		rows = nil
	}
	return rows, err
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	if n, ok := s.c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func plain(args []driver.NamedValue) []driver.Value {
	all := make([]driver.Value, len(args))
	for i, a := range args {
		all[i] = a.Value
	}
	return all
}
