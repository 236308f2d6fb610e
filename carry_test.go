package stint

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/memlease"
)

// lone is an authority whose requests are only begun, or made by whoever waits
// for them. It keeps the first ones until their context is done.
type lone struct {
	authority.Authority
	authority.Queuer
	withheld atomic.Int64 // so many are left
	called   chan string
	begun    atomic.Int64 // requests that were given to it to begin
}

func newLone(withheld int64) (*lone, *memlease.Authority) {
	m := memlease.New(authority.BootClock{})
	a := &lone{Authority: m, Queuer: m, called: make(chan string, 100)}
	a.withheld.Store(withheld)
	return a, m
}

func (a *lone) hold(ctx context.Context, what string) error {
	a.called <- what
	if a.withheld.Add(-1) >= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (a *lone) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	if err := a.hold(ctx, "acquire"); err != nil {
		return authority.Grant{}, err
	}
	return a.Authority.Acquire(ctx, r)
}

func (a *lone) Release(ctx context.Context, g authority.Grant) error {
	if err := a.hold(ctx, "release"); err != nil {
		return err
	}
	return a.Authority.Release(ctx, g)
}

func (a *lone) StartAcquire(ctx context.Context, r authority.Request, answered func(authority.Grant, error)) {
	a.begun.Add(1)
	go func() { answered(a.Acquire(ctx, r)) }()
}

func (a *lone) StartRelease(ctx context.Context, g authority.Grant, answered func(error)) {
	a.begun.Add(1)
	go func() { answered(a.Release(ctx, g)) }()
}

func closeBoth(t *testing.T, c *Client, m *memlease.Authority) {
	t.Helper()
	if err := errors.Join(c.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

// TestALoneCallerSendsItsRequestItself: nothing is given to others to send.
func TestALoneCallerSendsItsRequestItself(t *testing.T) {
	a, m := newLone(0)
	c := must[*Client](t)(New(a, Options{}))
	defer closeBoth(t, c, m)
	for range 10 {
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.begun.Load(); n > 0 {
		t.Errorf("%d requests of 20 were left to others", n)
	}
}

// TestWhoSendsItsAcquireItselfCanBeCalledOff: by its context and by Close, and
// nothing is left behind.
func TestWhoSendsItsAcquireItselfCanBeCalledOff(t *testing.T) {
	a, m := newLone(2)
	c := must[*Client](t)(New(a, Options{TTL: time.Hour}))
	why := errors.New("enough")
	for _, end := range []func(context.CancelCauseFunc){
		func(cancel context.CancelCauseFunc) { cancel(why) },
		func(context.CancelCauseFunc) { closeBoth(t, c, m) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.Acquire(ctx, "job")
			ended <- err
		}()
		<-a.called
		end(cancel)
		if err := <-ended; !errors.Is(err, why) && !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire ended with %v", err)
		}
		cancel(nil)
	}
}

// TestAReleaseOutlivesTheContextOfItsCaller: one that was begun goes on, and one
// whose context is done before is sent at once.
func TestAReleaseOutlivesTheContextOfItsCaller(t *testing.T) {
	a, m := newLone(0)
	c := must[*Client](t)(New(a, Options{}))
	defer closeBoth(t, c, m)
	l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
	<-a.called
	a.withheld.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-a.called
		cancel()
	}()
	if err := l.Release(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Release ended with %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("the release did not go on: %v", err)
	}
	<-a.called

	l = must[*Lease](t)(c.Acquire(t.Context(), "job"))
	<-a.called
	a.begun.Store(0)
	if err := l.Release(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Release ended with %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("the release did not go on: %v", err)
	}
	if n := a.begun.Load(); n != 1 {
		t.Errorf("a release whose context is done was begun %d times", n)
	}
}
