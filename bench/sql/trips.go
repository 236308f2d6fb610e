//go:build !race

package main

import (
	"context"
	"net"
	"sync/atomic"
)

// trips counts round trips: each time that something is read after something
// was written.
type trips struct{ n atomic.Int64 }

func (t *trips) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &tripConn{Conn: c, t: t}, nil
}

type tripConn struct {
	net.Conn
	t     *trips
	asked atomic.Bool
}

func (c *tripConn) Write(b []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(b)
}

func (c *tripConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.asked.Swap(false) {
		c.t.n.Add(1)
	}
	return n, err
}
