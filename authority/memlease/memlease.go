// Package memlease is an authority in the memory of one process: for tests, for
// programs of one process, and as the model that other authorities are compared
// with. It forgets everything when the process ends, its token counter too, so
// a fence that outlives the process must not be raised with its tokens.
package memlease

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

func init() {
	// mem: is private to the Open call: two calls give two authorities.
	authority.Register("mem", func(context.Context, *url.URL) (authority.Authority, error) {
		return New(nil), nil
	})
}

// patience is how long a waiter that is outside of Wait keeps its place. It is
// real time, also under a fake clock: it is about callers, not about leases.
const patience = 2 * time.Second

// Authority grants leases from memory. It is safe for concurrent use.
type Authority struct {
	clock  authority.Clock
	paced  bool          // clock is the host's: a timer can follow it
	closed chan struct{} // closed by Close

	mu      sync.Mutex
	counter fence.Token // one for all names, so that tokens grow over a forgotten name
	names   map[string]*entry
	calls   sync.WaitGroup // calls to Wait in flight
}

// entry is a name that was held or waited for at least once.
type entry struct {
	grant    fence.Grant // living, else the last one
	released bool        // grant ended by its own release
	holder   string
	since    time.Time
	length   time.Duration
	deadline authority.Instant
	line     []*waiter // in order of arrival
}

var (
	_ authority.Queuer      = (*Authority)(nil)
	_ authority.BulkRenewer = (*Authority)(nil)
	_ authority.Lister      = (*Authority)(nil)
	_ authority.Timing      = (*Authority)(nil)
	_ authority.Describer   = (*Authority)(nil)
)

// New makes an empty authority that judges leases by clock; nil means
// authority.BootClock. With any other clock, waiters look at it every few
// milliseconds of real time.
func New(clock authority.Clock) *Authority {
	if clock == nil {
		clock = authority.BootClock{}
	}
	_, paced := clock.(authority.BootClock)
	return &Authority{clock: clock, paced: paced, closed: make(chan struct{}), names: map[string]*entry{}}
}

// enter locks a, unless ctx is done or a is closed.
func (a *Authority) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memlease: nothing was done: %w", err)
	}
	a.mu.Lock()
	select {
	case <-a.closed:
		a.mu.Unlock()
		return fmt.Errorf("memlease: %w", authority.ErrClosed)
	default:
		return nil
	}
}

// entry returns what is kept of name, and makes it if need be.
func (a *Authority) entry(name string) *entry {
	e := a.names[name]
	if e == nil {
		e = &entry{}
		a.names[name] = e
	}
	return e
}

func (e *entry) held(now authority.Instant) bool {
	return e.grant.Token != 0 && !e.released && now < e.deadline
}

func (e *entry) state(name string, now authority.Instant) authority.State {
	s := authority.State{Name: name, Grant: e.grant, Holder: e.holder, Since: e.since, Length: e.length, Waiters: len(e.line)}
	if e.held(now) {
		s.Held, s.Left = true, e.deadline.Sub(now)
	}
	return s
}

// Acquire implements authority.Authority.
func (a *Authority) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	if err := r.Check(); err != nil {
		return authority.Grant{}, err
	}
	if err := a.enter(ctx); err != nil {
		return authority.Grant{}, err
	}
	defer a.mu.Unlock()
	e, now := a.entry(r.Name), a.clock.Now()
	held := e.held(now)
	if held && e.grant.Nonce == r.Nonce { // its answer was lost
		return authority.Grant{Grant: e.grant, Name: r.Name, Length: e.length}, nil
	}
	e.prune(time.Now())
	ahead := e.ahead(r.Waiter)
	if held || ahead > 0 {
		if r.Waiter != "" {
			e.join(r.Waiter)
		}
		return authority.Grant{}, &authority.HeldError{State: e.state(r.Name, now), Ahead: ahead}
	}
	if a.counter >= fence.MaxToken {
		return authority.Grant{}, fmt.Errorf("memlease: the token counter is used up; nothing was granted")
	}
	e.drop(r.Waiter)
	a.counter++
	*e = entry{
		grant: fence.Grant{Token: a.counter, Nonce: r.Nonce}, holder: r.KeptHolder(),
		since: time.Now(), length: r.Length, deadline: now.Add(r.Length), line: e.line,
	}
	return authority.Grant{Grant: e.grant, Name: r.Name, Length: e.length}, nil
}

// Renew implements authority.Authority. The length is the one stored with the
// grant.
func (a *Authority) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	if err := check(g); err != nil {
		return authority.Grant{}, err
	}
	if err := a.enter(ctx); err != nil {
		return authority.Grant{}, err
	}
	defer a.mu.Unlock()
	return a.extend(g, a.clock.Now())
}

// extend renews g; a is locked.
func (a *Authority) extend(g authority.Grant, now authority.Instant) (authority.Grant, error) {
	e := a.names[g.Name]
	if e == nil || !e.held(now) || e.grant != g.Grant {
		return authority.Grant{}, a.notHeld(g, e, now)
	}
	e.deadline = now.Add(e.length)
	return authority.Grant{Grant: e.grant, Name: g.Name, Length: e.length}, nil
}

// RenewAll implements authority.BulkRenewer: under one lock.
func (a *Authority) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	answers := make([]authority.Renewal, len(grants))
	if err := a.enter(ctx); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	defer a.mu.Unlock()
	now := a.clock.Now()
	for i, g := range grants {
		if answers[i].Err = check(g); answers[i].Err == nil {
			answers[i].Grant, answers[i].Err = a.extend(g, now)
		}
	}
	return answers
}

// Release implements authority.Authority.
func (a *Authority) Release(ctx context.Context, g authority.Grant) error {
	if err := check(g); err != nil {
		return err
	}
	if err := a.enter(ctx); err != nil {
		return err
	}
	defer a.mu.Unlock()
	now := a.clock.Now()
	e := a.names[g.Name]
	switch {
	case e != nil && e.grant == g.Grant && e.released:
		return nil
	case e == nil || !e.held(now) || e.grant != g.Grant:
		return a.notHeld(g, e, now)
	}
	e.released, e.deadline = true, now
	e.wakeFirst()
	return nil
}

func check(g authority.Grant) error {
	return authority.Request{Name: g.Name, Length: authority.MinLength, Nonce: g.Nonce}.Check()
}

func (a *Authority) notHeld(g authority.Grant, e *entry, now authority.Instant) error {
	s := authority.State{Name: g.Name}
	if e != nil {
		s = e.state(g.Name, now)
	}
	return &authority.NotHeldError{Grant: g.Grant, State: s}
}
