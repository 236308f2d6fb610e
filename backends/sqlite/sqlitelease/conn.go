package sqlitelease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// conn is a connection with its prepared statements. It is used by one
// goroutine at a time.
type conn struct {
	*sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

func openConn(ctx context.Context, path string) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return nil, err
	}
	c := &conn{s, map[string]*sqlite3.Stmt{}}
	// FULL: a token must not be forgotten at a power failure. Reads wait out
	// the short moments in which SQLite recovers or checkpoints.
	err = s.BusyHandler(func(ctx context.Context, _ int) bool { nap(); return ctx.Err() == nil })
	if err == nil {
		err = s.Exec(`PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF`)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// nap is the pause between two tries for a lock, jittered so that processes do
// not try in step.
func nap() { time.Sleep(100*time.Microsecond + rand.N(time.Millisecond)) }

func (c *conn) close() {
	for _, s := range c.stmts {
		_ = s.Close() // repeats the statement's last error, which was reported
	}
	c.stmts = nil
	_ = c.Conn.Close() // fails only if statements are left
}

// prepared returns the bound statement.
func (c *conn) prepared(sql string, args []any) (*sqlite3.Stmt, error) {
	s := c.stmts[sql]
	if s == nil {
		var err error
		if s, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return nil, err
		}
		c.stmts[sql] = s
	}
	for i, a := range args {
		var err error
		switch v := a.(type) {
		case string:
			err = s.BindText(i+1, v)
		case int64:
			err = s.BindInt64(i+1, v)
		case int:
			err = s.BindInt64(i+1, int64(v))
		default:
			err = fmt.Errorf("sqlitelease: cannot bind a %T", a)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (c *conn) exec(sql string, args ...any) error {
	return c.each(func(*sqlite3.Stmt) {}, sql, args...)
}

// each calls f for every row.
func (c *conn) each(f func(*sqlite3.Stmt), sql string, args ...any) error {
	s, err := c.prepared(sql, args)
	if err != nil {
		return err
	}
	for s.Step() {
		f(s)
	}
	err = s.Err()
	if again := s.Reset(); err == nil { // repeats the error, or finds a later one
		err = again
	}
	return err
}

// number returns the first column of the first row, zero if there is none.
func (c *conn) number(sql string, args ...any) (n int64, found bool, err error) {
	err = c.each(func(s *sqlite3.Stmt) {
		if !found {
			n, found = s.ColumnInt64(0), true
		}
	}, sql, args...)
	return n, found, err
}

// begin takes the write lock. While another process has it, wanted is asked
// before every further try.
func (c *conn) begin(wanted func() bool) error {
	for {
		// Not the busy handler: it could not be told to stop.
		err := c.Exec(`BEGIN IMMEDIATE`)
		if !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if !wanted() {
			return errBusy
		}
		nap()
	}
}

// rollback ends the transaction, if there still is one, without a change.
func (c *conn) rollback() {
	if !c.GetAutocommit() {
		_ = c.Exec(`ROLLBACK`) // fails only if SQLite has rolled back already
	}
}

// reader lends the one connection for reading.
type reader struct{ free chan *conn }

// read runs f on the reading connection, interrupted when ctx is done.
func (r reader) read(ctx context.Context, f func(*conn) error) error {
	select {
	case c := <-r.free:
		defer func() { r.free <- c }()
		old := c.SetInterrupt(ctx)
		defer c.SetInterrupt(old)
		return f(c)
	case <-ctx.Done():
		return ctx.Err()
	}
}
