// Package authoritytest is the conformance suite of the grant's side: named
// cases, each with the sentence of the contract that it defends.
//
//	func TestConformance(t *testing.T) {
//		authoritytest.Run(t, authoritytest.Subject{Open: open})
//	}
package authoritytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Subject is what is tested.
type Subject struct {
	// Open makes a fresh and empty authority for one case. The suite closes
	// what it opened.
	Open func(t *testing.T) Handle
	// NoQueue, NoList and NoBulk declare that the authority is no Queuer, Lister
	// or BulkRenewer. Without them a missing interface is a failure.
	NoQueue, NoList, NoBulk bool
	// Forgets declares that the authority keeps nothing of a grant that has
	// ended: the State of a free name may have a zero Grant, and a repeated
	// Release may be told that the grant is not held.
	Forgets bool
	// Length is that of the leases in real time, 1 s if zero. Half of it must be
	// a length that the authority keeps.
	Length time.Duration
	// Late is how much later than its end a lease may be gone, in real time, while
	// the handle that acquired it lives.
	Late time.Duration
}

// Handle is one open authority.
type Handle struct {
	Authority authority.Authority
	// Peer opens a second handle to the same store, as another process would.
	// Nil: there is only one, and it is used in its place.
	Peer func(t *testing.T) authority.Authority
	// Advance moves the authority's clock. Nil: the suite waits really, with
	// leases of two seconds, and runs the cases in parallel.
	Advance func(time.Duration)
}

// Case is one promise.
type Case struct {
	Name     string
	Sentence string // what it defends
	needs    need
	run      func(*env)
}

type need int

const (
	nothing need = iota
	queue
	list
	bulk
)

// Cases lists all cases, for documentation.
func Cases() []Case {
	return slices.Concat(grantCases, endCases, nameCases, waitCases, bulkCases)
}

// Run tests s against every case.
func Run(t *testing.T, s Subject) {
	for _, c := range Cases() {
		if c.needs == queue && s.NoQueue || c.needs == list && s.NoList || c.needs == bulk && s.NoBulk {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			h := s.Open(t)
			if h.Advance == nil {
				t.Parallel()
			}
			e := newEnv(t, h) // its time begins when the case does
			e.forgets, e.late = s.Forgets, s.Late
			if h.Advance == nil && s.Length != 0 {
				e.length = s.Length
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("this defends: %s", c.Sentence)
				}
			})
			c.run(e)
		})
	}
}

// env is what one case works with.
type env struct {
	*testing.T
	ctx     context.Context
	a       authority.Authority // first handle
	b       authority.Authority // second handle to the same store
	advance func(time.Duration)
	length  time.Duration // of the leases in this case
	forgets bool          // see Subject
	late    time.Duration // see Subject
	count   atomic.Int64

	mu    sync.Mutex
	tries map[string][]string // nonces, by waiter
}

func newEnv(t *testing.T, h Handle) *env {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	e := &env{T: t, ctx: ctx, a: h.Authority, b: h.Authority, advance: h.Advance, length: 10 * time.Second, tries: map[string][]string{}}
	if h.Advance == nil {
		e.length = time.Second
	}
	if h.Peer != nil {
		e.b = h.Peer(t)
	}
	t.Cleanup(func() {
		cancel()
		if e.b != e.a {
			e.closes(e.b)
		}
		e.closes(e.a)
	})
	return e
}

func (e *env) closes(a authority.Authority) {
	if err := a.Close(); err != nil && !errors.Is(err, authority.ErrClosed) {
		e.Errorf("Close: %v", err)
	}
}

// pass lets d go by, on the clock that the authority judges by. After a whole
// length, leases that were not renewed are gone.
func (e *env) pass(d time.Duration) {
	if e.advance != nil {
		e.advance(d)
		return
	}
	if d >= e.length {
		d += e.late
	}
	time.Sleep(d) // real time is what is waited for here, not an event
}

// ask makes a request of its own nonce.
func (e *env) ask(name string) authority.Request {
	n := e.count.Add(1)
	return authority.Request{Name: name, Length: e.length, Nonce: fmt.Sprintf("n%d", n), Holder: fmt.Sprintf("holder %d", n)}
}

// line makes a request that stands in line.
func (e *env) line(name, waiter string) authority.Request {
	r := e.ask(name)
	r.Waiter, r.Holder = waiter, waiter
	e.note(r)
	return r
}

// again is a further try of the same wait.
func (e *env) again(r authority.Request) authority.Request {
	r.Nonce = e.ask(r.Name).Nonce
	e.note(r)
	return r
}

func (e *env) note(r authority.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tries[r.Waiter] = append(e.tries[r.Waiter], r.Nonce)
}

// answers says what is wrong with g as the grant of r. One to a waiter may carry
// the nonce of an earlier try, and then says from when it counts.
func (e *env) answers(r authority.Request, g authority.Grant) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case g.Name != r.Name || g.Length != r.Length || !g.Token.Valid():
		return fmt.Errorf("the request %+v was granted %+v", r, g)
	case g.Nonce == r.Nonce:
		return nil
	case r.Waiter == "" || !slices.Contains(e.tries[r.Waiter], g.Nonce):
		return fmt.Errorf("the request %+v was granted %+v: the nonce is of no try of this waiter", r, g)
	case g.From == 0:
		return fmt.Errorf("the request %+v was granted %+v: it may be older than this try, and does not say from when it counts", r, g)
	}
	return nil
}

func (e *env) acquire(a authority.Authority, r authority.Request) authority.Grant {
	e.Helper()
	g, err := a.Acquire(e.ctx, r)
	if err != nil {
		e.Fatalf("Acquire %q: %v", r.Name, err)
	}
	if err := e.answers(r, g); err != nil {
		e.Fatal(err)
	}
	return g
}

// last wants s to speak of g, which has ended and which nobody has followed.
func (e *env) last(what string, s authority.State, g authority.Grant) {
	e.Helper()
	if s.Held || s.Left != 0 || s.Grant != g.Grant && !(e.forgets && s.Grant.IsZero()) {
		e.Errorf("%s: nobody has followed %v, and this is said: %+v", what, g.Grant, s)
	}
}

// releasedBefore repeats the release of g, which nobody has followed.
func (e *env) releasedBefore(a authority.Authority, g authority.Grant) {
	e.Helper()
	if err := a.Release(e.ctx, g); err != nil && !(e.forgets && errors.Is(err, authority.ErrNotHeld)) {
		e.Errorf("a release repeated: %v", err)
	}
}

func (e *env) held(a authority.Authority, r authority.Request) *authority.HeldError {
	e.Helper()
	g, err := a.Acquire(e.ctx, r)
	var h *authority.HeldError
	if !errors.As(err, &h) || !errors.Is(err, authority.ErrHeld) {
		e.Fatalf("Acquire %q: got %+v, %v; want a *HeldError", r.Name, g, err)
	}
	if h.State.Name != r.Name {
		e.Fatalf("HeldError speaks of %q, asked was %q", h.State.Name, r.Name)
	}
	return h
}

func (e *env) renew(a authority.Authority, g authority.Grant) authority.Grant {
	e.Helper()
	n, err := a.Renew(e.ctx, g)
	if err != nil {
		e.Fatalf("Renew %v: %v", g.Grant, err)
	}
	if n.Grant != g.Grant || n.Name != g.Name {
		e.Fatalf("Renew %+v answered for %+v", g, n)
	}
	return n
}

func (e *env) release(a authority.Authority, g authority.Grant) {
	e.Helper()
	if err := a.Release(e.ctx, g); err != nil {
		e.Fatalf("Release %v: %v", g.Grant, err)
	}
}

// notHeld wants err to be a *NotHeldError about g.
func (e *env) notHeld(err error, g authority.Grant) authority.State {
	e.Helper()
	var n *authority.NotHeldError
	if !errors.As(err, &n) || !errors.Is(err, authority.ErrNotHeld) {
		e.Fatalf("got %v; want a *NotHeldError", err)
	}
	if n.Grant != g.Grant || n.State.Name != g.Name {
		e.Fatalf("NotHeldError speaks of %v of %q; asked was %v of %q", n.Grant, n.State.Name, g.Grant, g.Name)
	}
	return n.State
}

func (e *env) inspect(a authority.Authority, name string) authority.State {
	e.Helper()
	s, err := a.Inspect(e.ctx, name)
	if err != nil {
		e.Fatalf("Inspect %q: %v", name, err)
	}
	if s.Name != name {
		e.Fatalf("Inspect %q answered about %q", name, s.Name)
	}
	return s
}

// invalid wants a definite refusal that says something.
func (e *env) invalid(what string, err error) {
	e.Helper()
	if !errors.Is(err, authority.ErrInvalid) {
		e.Errorf("%s: got %v; want ErrInvalid", what, err)
	} else if len(strings.TrimSpace(err.Error())) < 20 {
		e.Errorf("%s: the error says too little: %v", what, err)
	}
}

// eventually waits for a condition with a deadline.
func (e *env) eventually(what string, within time.Duration, f func() bool) {
	e.Helper()
	for end := time.Now().Add(within); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			e.Fatalf("not within %v: %s", within, what)
		}
	}
}
