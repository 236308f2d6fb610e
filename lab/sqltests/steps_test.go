package sqltests

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-dev/stint/fence/fencetest/halt"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// steps says at which of the process's own writes to the server it sends itself
// a signal. What lies between two writes is waiting for an answer, so this is
// every step.
type steps struct {
	At     int64 // counted from 1 over all connections; 0: at none
	When   int
	Signal syscall.Signal
}

// The places around a write.
const (
	beforeWrite = iota // the server hears nothing of it
	inWrite            // half of it is sent: a message that has begun and does not end
	afterWrite         // the server goes on, and its answer is not read
	whens
)

// stepper counts the writes of a process.
type stepper struct {
	steps
	n atomic.Int64
}

func (s *stepper) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &stepConn{c, s}, nil
}

type stepConn struct {
	net.Conn
	s *stepper
}

func (c *stepConn) Write(b []byte) (int, error) {
	if c.s.n.Add(1) != c.s.At {
		return c.Conn.Write(b)
	}
	first := 0
	switch c.s.When {
	case inWrite:
		first = len(b) / 2
	case afterWrite:
		first = len(b)
	}
	n, err := c.Conn.Write(b[:first])
	if err != nil {
		return n, err
	}
	if err := halt.Self(c.s.Signal); err != nil {
		return n, err
	}
	more, err := c.Conn.Write(b[n:])
	return n + more, err
}

// stepped opens the place's database with a driver whose writes are counted.
func (p place) stepped(s *stepper) (*sql.DB, error) {
	if p.Dialect == sqlfence.MariaDB {
		c, err := mysql.ParseDSN(p.DSN)
		if err != nil {
			return nil, err
		}
		c.DialFunc = s.Dial
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}
	c, err := pgx.ParseConfig(p.DSN)
	if err != nil {
		return nil, err
	}
	c.DialFunc = s.Dial
	return stdlib.OpenDB(*c), nil
}
