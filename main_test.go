package stint

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/authority/memlease"
	"github.com/stint-dev/stint/internal/clock"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f in virtual time, with an in-memory authority behind a fault
// layer.
func inBubble(t *testing.T, f func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Last of all: what an authority that listens to no context still does
		// comes to its end.
		t.Cleanup(func() { time.Sleep(time.Hour) })
		c := clock.Process()
		inner := memlease.New(c)
		b := &bubble{t: t, clock: c, inner: inner, net: faulty.New(inner, nil)}
		f(t, b)
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
}

// bubble is a world in virtual time.
type bubble struct {
	t     *testing.T
	clock clock.Clock
	inner *memlease.Authority
	net   *faulty.Authority
}

// client makes a client that is closed at the end, through the faults.
func (b *bubble) client(o Options) *Client { return b.clientOf(b.net, o) }

func (b *bubble) clientOf(a authority.Authority, o Options) *Client {
	b.t.Helper()
	c, err := newClient(a, o, b.clock)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// cut makes every request from now on silent until heal.
func (b *bubble) cut() {
	b.net.SetPlan(func(string, int) faulty.Fault { return faulty.Fault{DropRequest: true, Hang: true} })
}

func (b *bubble) heal() { b.net.SetPlan(nil) }

// nth plans a fault for the n-th request of one operation, counted from the
// start.
func nth(op string, n int, f faulty.Fault) faulty.Plan {
	return func(o string, i int) faulty.Fault {
		if o == op && i == n {
			return f
		}
		return faulty.Pass
	}
}

func (b *bubble) inspect(name string) authority.State {
	b.t.Helper()
	s, err := b.inner.Inspect(context.Background(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// must is for what has to succeed.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// done reports whether a lease's context is done, and its cause.
func done(l *Lease) (bool, error) {
	synctest.Wait()
	select {
	case <-l.Context().Done():
		return true, context.Cause(l.Context())
	default:
		return false, nil
	}
}

func wantLost(t *testing.T, l *Lease, reason error) *LostError {
	t.Helper()
	over, cause := done(l)
	if !over || !errors.Is(cause, reason) || !errors.Is(l.Err(), reason) {
		t.Fatalf("context done %v with cause %v, Err %v; want both to be %v", over, cause, l.Err(), reason)
	}
	var lost *LostError
	if !errors.As(l.Err(), &lost) {
		t.Fatalf("Err is %T, want a *LostError", l.Err())
	}
	return lost
}

func wantHeld(t *testing.T, l *Lease) {
	t.Helper()
	if over, cause := done(l); over || l.Err() != nil {
		t.Fatalf("the lease is over: %v, %v", cause, l.Err())
	}
}

// sleepUntil advances virtual time to an instant.
func (b *bubble) sleepUntil(at time.Duration) {
	time.Sleep(authority.Instant(at).Sub(b.clock.Now()))
	synctest.Wait()
}

// background acquires in a goroutine; the results come over the channels.
func background(ctx context.Context, c *Client, name string) (<-chan *Lease, <-chan error) {
	leases, errs := make(chan *Lease, 1), make(chan error, 1)
	go func() {
		l, err := c.Acquire(ctx, name)
		if err != nil {
			errs <- err
			return
		}
		leases <- l
	}()
	return leases, errs
}

// counter counts from many goroutines.
type counter struct{ n atomic.Int64 }

func (c *counter) add()       { c.n.Add(1) }
func (c *counter) value() int { return int(c.n.Load()) }
