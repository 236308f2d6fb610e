// Package faultsql puts a hook between database/sql and a driver, before and
// after every request to the database. What the hook does there is up to it:
// return an error, so that the request is dropped or its answer is lost; stop
// or kill its own process; count.
//
// It is for tests, and for demonstrations of what a fence does with lost
// answers. It links no driver.
package faultsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
)

// Op is a kind of request.
type Op string

// The kinds of requests.
const (
	Connect  Op = "connect"
	Begin    Op = "begin"
	Exec     Op = "exec"
	Query    Op = "query"
	Commit   Op = "commit"
	Rollback Op = "rollback"
)

// Request is one request to the database.
type Request struct {
	N     int64  // counts the requests of all connections, from 1
	Op    Op     //
	Query string // of Exec and Query
}

// String is "5 exec UPDATE …".
func (r Request) String() string {
	if r.Query == "" {
		return fmt.Sprintf("%d %s", r.N, r.Op)
	}
	return fmt.Sprintf("%d %s %.60s", r.N, r.Op, r.Query)
}

// When is the side of the request on which a hook is called.
type When int

// A hook is called Before a request: an error drops it, and the database never
// sees it. It is called again After, if the database accepted it: an error
// takes the place of the answer.
const (
	Before When = iota
	After
)

// String is "before" or "after".
func (w When) String() string { return [...]string{"before", "after"}[w] }

// Hook is called around every request, possibly by several goroutines at once.
// An error that matches ErrLost breaks the connection as well: from then on it
// answers driver.ErrBadConn to everything, until database/sql closes it.
type Hook func(r Request, w When) error

// ErrLost is a connection that broke.
var ErrLost = errors.New("faultsql: connection lost")

// Drop loses the n-th request (Before) or its answer (After), and nothing else.
func Drop(n int64, when When) Hook {
	return func(r Request, w When) error {
		if r.N == n && w == when {
			return fmt.Errorf("%w %v request %v", ErrLost, w, r)
		}
		return nil
	}
}

// Open is sql.Open with a hook. Statements go one at a time: a driver that takes
// several in one string does not do so here.
func Open(driverName, dsn string, hook Hook) (*sql.DB, error) {
	plain, err := sql.Open(driverName, dsn) // connects to nothing yet
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	if d, ok := plain.Driver().(driver.DriverContext); ok {
		c, err := d.OpenConnector(dsn)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(Wrap(c, hook)), nil
	}
	return sql.OpenDB(Wrap(byName{plain.Driver(), dsn}, hook)), nil
}

// byName is the connector of a driver that has none.
type byName struct {
	d   driver.Driver
	dsn string
}

func (b byName) Connect(context.Context) (driver.Conn, error) { return b.d.Open(b.dsn) }
func (b byName) Driver() driver.Driver                        { return b.d }

// Wrap puts hook around every request of the connector's connections.
func Wrap(c driver.Connector, hook Hook) driver.Connector { return &connector{inner: c, hook: hook} }

type connector struct {
	inner driver.Connector
	hook  Hook
	n     atomic.Int64
}

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	r := Request{N: c.n.Add(1), Op: Connect}
	if err := c.hook(r, Before); err != nil {
		return nil, err
	}
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.hook(r, After); err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return &conn{Conn: inner, c: c}, nil
}
