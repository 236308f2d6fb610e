package etcdlease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/authority"
)

// silence is for how long a server may leave requests without a byte in answer
// before its connection is given up. It is a guess that costs little when it is
// wrong (a new connection), and much when it is not made: gRPC looks after its
// connections every 10 s at the soonest, which is a whole lease.
const silence = 2 * time.Second

// wires knows the connections of one client: the last failure of each server,
// since gRPC keeps it to itself while a request waits for a connection, and
// which server leaves requests without an answer.
type wires struct {
	hosts []string
	clock authority.BootClock

	mu    sync.Mutex
	fails map[string]error // the last try of a server; none when it speaks
	open  map[*wire]struct{}
	// hopeless is called when mayMend turns false.
	hopeless func()
}

func newWires(hosts []string) *wires {
	return &wires{hosts: hosts, fails: map[string]error{}, open: map[*wire]struct{}{}}
}

// wire is one connection.
type wire struct {
	net.Conn
	raw      net.Conn // below TLS, whose own Close may wait for a server that is stopped
	of       *wires
	server   string
	tls      bool
	openedAt authority.Instant
	readAt   atomic.Int64 // the last byte; zero: none yet
	// askedAt is when the first request was sent that has failed since without
	// any byte in answer; later than readAt, or it is over.
	askedAt atomic.Int64
	// sentAt is when the first bytes were sent since the last ones came; zero:
	// none were. Not all of them ask for an answer: it is for people.
	sentAt atomic.Int64
	broken atomic.Bool // a write failed: the other side has closed
}

func (w *wires) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		w.failed(addr, plainWords(err))
	}
	return conn, err
}

func (w *wires) failed(server string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails[server] = err
	if w.hopeless != nil && !w.mendable() {
		w.hopeless()
	}
}

func (w *wires) opened(server string, raw, conn net.Conn, secure bool) net.Conn {
	c := &wire{Conn: conn, raw: raw, of: w, server: server, tls: secure, openedAt: w.clock.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[c] = struct{}{}
	return c
}

// Read notes that the server speaks, or why it does not.
func (c *wire) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.sentAt.Store(0)
		if c.readAt.Swap(int64(c.of.clock.Now())) == 0 {
			c.of.failed(c.server, nil)
			switch {
			case !c.tls && b[0] == tlsAlert:
				c.of.failed(c.server, errSpeaksTLS)
			case bytes.HasPrefix(b[:n], []byte("HTTP/1")):
				c.of.failed(c.server, &mendError{errors.New("what listens there is a web server, not etcd")})
			}
		}
	}
	switch {
	case err == nil:
	case c.readAt.Load() != 0:
		if !errors.Is(err, net.ErrClosed) {
			c.of.failed(c.server, errors.New("it has closed the connection"))
		}
	default:
		if why := c.unread(err); why != nil {
			c.of.failed(c.server, why)
		}
	}
	return n, err
}

// Write notes since when an answer may be due.
func (c *wire) Write(b []byte) (int, error) {
	c.sentAt.CompareAndSwap(0, int64(c.of.clock.Now()))
	n, err := c.Conn.Write(b)
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

// tlsAlert is the first byte of what a TLS server says to who does not speak
// it; HTTP/2 begins with the length of a frame.
const tlsAlert = 0x15

// unread is the failure of a connection on which nothing was ever read; nil
// where that says nothing about the server.
func (c *wire) unread(err error) error {
	if w := alertWords(err); w != "" {
		return &mendError{fmt.Errorf("%s (%w)", w, err)}
	}
	if errors.Is(err, net.ErrClosed) { // by this side
		switch {
		case c.broken.Load():
			err = io.EOF
		case c.of.clock.Now().Sub(c.openedAt) < silence:
			return nil
		default:
			return errors.New("it accepts connections and never answers")
		}
	}
	if c.tls {
		return plainWords(err)
	}
	return c.probe(plainWords(err))
}

// Close forgets the connection.
func (c *wire) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// intercept is a grpc.UnaryClientInterceptor that gives up the connection of a
// server which has stopped answering. Requests then go to another one, and to
// this one again when it has greeted a new connection, which it cannot do while
// it is stopped.
func (w *wires) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var p peer.Peer
	from := w.clock.Now()
	err := invoke(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Peer(&p))...)
	code := status.Code(err)
	if code != codes.DeadlineExceeded && code != codes.Canceled || p.LocalAddr == nil {
		return err
	}
	if c := w.by(p.LocalAddr.String()); c != nil && c.silentSince(from, code == codes.Canceled) {
		w.failed(c.server, errors.New("it has stopped answering"))
		c.raw.Close()
	}
	return err
}

// silentSince reports whether a connection is silent for too long, now that a
// request that was sent at from is without an answer. One that was recalled by
// its caller tells only what it has seen itself: its answer may be withheld.
func (c *wire) silentSince(from authority.Instant, recalled bool) bool {
	read, asked, now := authority.Instant(c.readAt.Load()), authority.Instant(c.askedAt.Load()), c.of.clock.Now()
	switch {
	case read >= from:
		return false
	case recalled:
		return now.Sub(from) >= silence
	case asked <= read:
		asked = from
		c.askedAt.Store(int64(from))
	}
	return now.Sub(asked) >= silence
}

func (w *wires) by(local string) *wire {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		if c.LocalAddr().String() == local {
			return c
		}
	}
	return nil
}

// report says what is wrong with each server, or "" if nothing is known to be.
func (w *wires) report() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, h := range w.hosts {
		if err := w.state(h); err != nil {
			all = append(all, h+": "+err.Error())
		}
	}
	return strings.Join(all, "; ")
}

// state is what is wrong with a server, or nil. Its caller has the lock.
func (w *wires) state(host string) error {
	if mend, ok := errors.AsType[*mendError](w.fails[host]); ok {
		return mend // more than that the next try has had no answer yet
	}
	now, last := w.clock.Now(), w.fails[host]
	for c := range w.open {
		read, sent := c.readAt.Load(), authority.Instant(c.sentAt.Load())
		switch open := now.Sub(c.openedAt); {
		case c.server != host:
		case read == 0 && last != nil && open < silence: // what came of the last one says more
		case read == 0:
			return fmt.Errorf("it accepted a connection %v ago and has not answered yet", open.Round(time.Millisecond))
		case sent != 0 && now.Sub(sent) > time.Second/10:
			return fmt.Errorf("it has not answered for %v", now.Sub(sent).Round(time.Millisecond))
		}
	}
	return last
}

// mayMend reports whether trying again may help: false when every server was
// tried, and each failed for a reason that somebody has to mend.
func (w *wires) mayMend() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mendable()
}

func (w *wires) mendable() bool {
	for _, h := range w.hosts {
		if _, ok := errors.AsType[*mendError](w.fails[h]); !ok {
			return true
		}
	}
	return false
}

func (w *wires) whenHopeless(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hopeless = f
}
