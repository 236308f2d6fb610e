package authoritytest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

var waitCases = []Case{
	{"first come first served", "Those who wait are served in the order in which they came.", queue, firstCome},
	{"no overtaking", "Who does not stand in line does not overtake a living line.", queue, noOvertaking},
	{"left behind nothing", "A waiter that left leaves nothing behind and delays nobody.", queue, leftNothing},
	{"dead waiter", "A waiter that is never heard of again holds up the others for the stated lateness at most.", queue, deadWaiter},
	{"woken by release", "Wait returns soon after the release that makes its waiter the next.", queue, wokenByRelease},
	{"woken by expiry", "Wait returns when the holder's lease has run out.", queue, wokenByExpiry},
	{"wait ends with its context", "Wait returns nil when its context is done, and keeps the place.", queue, waitEnds},
	{"nonce of a wait", "A grant to one who waited carries the nonce of a try of its own, and is renewed and released under it.", queue, nonceOfAWait},
	{"granted leaves the line", "A waiter that was granted the name is no longer in line.", queue, grantedLeaves},
	{"short wait behind a long lease", "A waiter's own length counts from its grant, not from when it began to wait.", queue, shortBehindLong},
	{"everybody is served", "With many waiters through two handles everybody is served, one at a time.", queue, everybodyServed},
}

func (e *env) queuer(a authority.Authority) authority.Queuer {
	e.Helper()
	q, ok := a.(authority.Queuer)
	if !ok {
		e.Fatalf("%T is no Queuer", a)
	}
	return q
}

// waits stands in line until it is granted.
func (e *env) waits(a authority.Authority, r authority.Request) (authority.Grant, error) {
	q := e.queuer(a)
	for {
		r = e.again(r)
		g, err := a.Acquire(e.ctx, r)
		if err == nil {
			return g, e.answers(r, g)
		}
		if _, ok := err.(*authority.HeldError); !ok {
			return g, err
		}
		if err := q.Wait(e.ctx, r); err != nil {
			return g, err
		}
		if err := e.ctx.Err(); err != nil {
			return g, err
		}
	}
}

type served struct {
	who string
	g   authority.Grant
	err error
}

// background lets who wait, and reports when it is granted.
func (e *env) background(a authority.Authority, r authority.Request, out chan<- served) {
	before := e.inspect(e.a, r.Name).Waiters
	go func() {
		g, err := e.waits(a, r)
		out <- served{r.Waiter, g, err}
	}()
	e.eventually("one more waiter in line", 20*time.Second, func() bool { return e.inspect(e.a, r.Name).Waiters > before })
}

func (e *env) next(out <-chan served) served {
	e.Helper()
	select {
	case s := <-out:
		if s.err != nil {
			e.Fatalf("%s: %v", s.who, s.err)
		}
		return s
	case <-time.After(30 * time.Second):
		e.Fatalf("nobody was served within 30 s")
		return served{}
	}
}

func (e *env) long(r authority.Request) authority.Request {
	r.Length = time.Hour
	return r
}

func firstCome(e *env) {
	g := e.acquire(e.a, e.long(e.ask("x")))
	out := make(chan served, 4)
	for i := range 4 {
		e.background([]authority.Authority{e.a, e.b}[i%2], e.long(e.line("x", fmt.Sprintf("w%d", i))), out)
	}
	if s := e.inspect(e.b, "x"); s.Waiters != 4 {
		e.Errorf("4 in line, Inspect says %d", s.Waiters)
	}
	for i := range 4 {
		e.release(e.a, g)
		s := e.next(out)
		if want := fmt.Sprintf("w%d", i); s.who != want {
			e.Fatalf("served %s, %s was first", s.who, want)
		}
		g = s.g
	}
	if s := e.inspect(e.b, "x"); s.Waiters != 0 {
		e.Errorf("all were served, Inspect says %d in line", s.Waiters)
	}
}

func noOvertaking(e *env) {
	g := e.acquire(e.a, e.long(e.ask("x")))
	w := e.long(e.line("x", "w"))
	if h := e.held(e.b, w); h.Ahead != 0 || !h.State.Held {
		e.Errorf("first in line of a held name: %+v", h)
	}
	if h := e.held(e.b, e.line("x", "second")); h.Ahead != 1 {
		e.Errorf("second in line: %d ahead", h.Ahead)
	}
	e.release(e.a, g)
	// The first in line may hold it by now, without having asked.
	if h := e.held(e.a, e.ask("x")); h.State.Grant == g.Grant && h.State.Held || h.Ahead != 2-e.holds(h) {
		e.Errorf("a free name with two in line: %+v", h)
	}
	if h := e.held(e.b, e.again(e.line("x", "second"))); h.State.Grant == g.Grant && h.State.Held || h.Ahead != 1-e.holds(h) {
		e.Errorf("the second of a free name: %+v", h)
	}
	e.acquire(e.b, e.again(w))
}

// holds is 1 if somebody holds the name, else 0.
func (e *env) holds(h *authority.HeldError) int {
	if h.State.Held {
		return 1
	}
	return 0
}

func leftNothing(e *env) {
	g := e.acquire(e.a, e.long(e.ask("x")))
	first, second := e.long(e.line("x", "first")), e.long(e.line("x", "second"))
	e.held(e.a, first)
	out := make(chan served, 1)
	e.background(e.b, second, out)
	e.release(e.a, g)
	for range 2 {
		if err := e.queuer(e.a).Leave(e.ctx, first); err != nil {
			e.Fatalf("Leave: %v", err)
		}
	}
	if s := e.next(out); s.who != "second" {
		e.Fatalf("served %s", s.who)
	}
	if s := e.inspect(e.a, "x"); s.Waiters != 0 {
		e.Errorf("%d in line after all have gone", s.Waiters)
	}
	if err := e.queuer(e.a).Leave(e.ctx, e.line("never", "w")); err != nil {
		e.Errorf("leaving a line that one is not in: %v", err)
	}
}

func deadWaiter(e *env) {
	t, ok := e.a.(authority.Timing)
	if !ok {
		e.Fatalf("%T states no Lateness", e.a)
	}
	g := e.acquire(e.a, e.long(e.ask("x")))
	e.held(e.b, e.line("x", "dead")) // and never again
	out := make(chan served, 1)
	e.background(e.a, e.long(e.line("x", "alive")), out)
	start := time.Now()
	e.release(e.a, g)
	s := e.next(out)
	// A busy machine may add to it; what is tested is that it is not for ever.
	if d := time.Since(start); s.who != "alive" || d > t.Lateness()+10*time.Second {
		e.Errorf("served %s after %v, the stated lateness is %v", s.who, d, t.Lateness())
	}
}

func wokenByRelease(e *env) {
	g := e.acquire(e.a, e.long(e.ask("x")))
	out := make(chan served, 1)
	e.background(e.b, e.line("x", "w"), out)
	e.release(e.a, g)
	e.next(out)
}

func wokenByExpiry(e *env) {
	e.acquire(e.a, e.ask("x"))
	out := make(chan served, 1)
	e.background(e.b, e.line("x", "w"), out)
	if e.advance != nil {
		e.pass(e.length - 1)
		select {
		case s := <-out:
			e.Fatalf("%s was served before the lease had run out", s.who)
		default:
		}
		e.pass(1)
	}
	e.next(out)
}

func waitEnds(e *env) {
	e.acquire(e.a, e.long(e.ask("x")))
	r := e.line("x", "w")
	e.held(e.b, r)
	for range 2 { // the second time it is still in line
		ctx, cancel := context.WithTimeout(e.ctx, 30*time.Millisecond)
		for ctx.Err() == nil {
			if err := e.queuer(e.b).Wait(ctx, r); err != nil {
				e.Fatalf("Wait: %v", err)
			}
		}
		cancel()
		if s := e.inspect(e.a, "x"); s.Waiters != 1 {
			e.Fatalf("%d in line, want the one that waits", s.Waiters)
		}
	}
}

// The checks of the nonce itself are acquire's.
func nonceOfAWait(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	r := e.line("x", "w")
	for range 3 {
		e.held(e.b, r)
		r = e.again(r)
	}
	e.release(e.a, g)
	e.eventually("the holder gone", 20*time.Second, func() bool {
		s := e.inspect(e.a, "x")
		return !s.Held || s.Grant != g.Grant
	})
	won := e.acquire(e.b, r)
	if again := e.acquire(e.b, r); again.Grant != won.Grant { // its answer was lost
		e.Errorf("asked again: %+v, not %+v", again, won)
	}
	if s := e.inspect(e.a, "x"); !s.Held || s.Grant != won.Grant || s.Waiters != 0 {
		e.Errorf("granted %v, and this is said: %+v", won.Grant, s)
	}
	won = e.renew(e.b, won)
	e.release(e.b, won)
	if s := e.inspect(e.a, "x"); s.Held || s.Waiters != 0 {
		e.Errorf("the wait left behind %+v", s)
	}
}

func grantedLeaves(e *env) {
	r := e.line("x", "w")
	g := e.acquire(e.a, r)
	if again := e.acquire(e.a, r); again.Grant != g.Grant { // its answer was lost
		e.Errorf("asked again: %+v, not %+v", again, g)
	}
	if s := e.inspect(e.b, "x"); s.Waiters != 0 {
		e.Errorf("the holder is counted as waiting: %+v", s)
	}
}

func shortBehindLong(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	w := e.line("x", "w")
	w.Length = e.length / 2
	e.held(e.b, w)
	out := make(chan served, 1)
	go func() {
		got, err := e.waits(e.b, w)
		out <- served{"w", got, err}
	}()
	e.pass(w.Length) // its own length goes by while it waits
	e.release(e.a, g)
	s := e.next(out)
	if left := e.inspect(e.a, "x").Left; s.g.Length != w.Length || left > w.Length || left <= 0 {
		e.Errorf("granted %+v with %v left, want %v from the grant on", s.g, left, w.Length)
	}
}

func everybodyServed(e *env) {
	const waiters = 30
	var mu sync.Mutex
	inside, most := 0, 0
	out := make(chan served, waiters)
	for i := range waiters {
		a := []authority.Authority{e.a, e.b}[i%2]
		r := e.long(e.line("x", fmt.Sprintf("w%d", i)))
		go func() {
			g, err := e.waits(a, r)
			if err == nil {
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				time.Sleep(time.Millisecond) // the work
				mu.Lock()
				inside--
				mu.Unlock()
				err = a.Release(e.ctx, g)
			}
			out <- served{r.Waiter, g, err}
		}()
	}
	for range waiters {
		e.next(out)
	}
	if most != 1 {
		e.Errorf("%d at once", most)
	}
}
