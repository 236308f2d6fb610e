package authoritytest

import (
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

var endCases = []Case{
	{"an ended lease stays ended", "A renewal after the deadline is refused, even if nobody took over.", nothing, endedStaysEnded},
	{"another nonce", "A token with another nonce is another grant: it neither renews nor releases.", nothing, anotherNonce},
	{"only this very grant", "An old holder cannot release or renew its successor's lease, and learns who the successor is.", nothing, onlyThisGrant},
	{"release twice", "Repeating a release is harmless: nil as long as nobody has followed, or definite where what has ended is forgotten.", nothing, releaseTwice},
	{"renew after release", "A released lease is not renewed.", nothing, renewAfterRelease},
	{"unknown grants", "A grant of a name that was never held is definitely not held.", nothing, unknownGrants},
	{"close", "After Close every method answers ErrClosed, and no lease was released.", nothing, closes},
	{"cancelled context", "Every method returns soon after its context is done.", nothing, cancelled},
	{"list in order", "List gives every name in the order of its bytes, as Inspect would.", list, lists},
}

func endedStaysEnded(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	e.pass(e.length)
	_, err := e.a.Renew(e.ctx, g)
	e.last("a renewal after the end", e.notHeld(err, g), g)
	if s := e.inspect(e.b, "x"); s.Held {
		e.Errorf("the refused renewal brought it back: %+v", s)
	}
	e.notHeld(e.a.Release(e.ctx, g), g) // it ran out: not by its own doing
	e.acquire(e.b, e.ask("x"))
}

func anotherNonce(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	forged := g
	forged.Nonce = "other"
	_, err := e.b.Renew(e.ctx, forged)
	e.notHeld(err, forged)
	e.notHeld(e.b.Release(e.ctx, forged), forged)
	if s := e.inspect(e.a, "x"); !s.Held || s.Grant != g.Grant {
		e.Errorf("the forged grant changed something: %+v", s)
	}
}

func onlyThisGrant(e *env) {
	old := e.acquire(e.a, e.ask("x"))
	e.pass(e.length)
	r := e.ask("x")
	next := e.acquire(e.b, r)
	_, err := e.a.Renew(e.ctx, old)
	for _, err := range []error{err, e.a.Release(e.ctx, old)} {
		if s := e.notHeld(err, old); !s.Held || s.Grant != next.Grant || s.Holder != r.Holder {
			e.Errorf("the successor is %v (%s), the error says %+v", next.Grant, r.Holder, s)
		}
	}
	e.renew(e.b, next)
	e.release(e.b, next)
	e.notHeld(e.a.Release(e.ctx, old), old)
}

func releaseTwice(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	e.release(e.a, g)
	e.releasedBefore(e.b, g)
	e.pass(2 * e.length)
	e.releasedBefore(e.a, g)
	next := e.acquire(e.b, e.ask("x"))
	e.notHeld(e.a.Release(e.ctx, g), g)
	if s := e.inspect(e.a, "x"); !s.Held || s.Grant != next.Grant {
		e.Errorf("the repeated release touched the successor: %+v", s)
	}
}

func renewAfterRelease(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	e.release(e.a, g)
	_, err := e.a.Renew(e.ctx, g)
	e.notHeld(err, g)
	if s := e.inspect(e.a, "x"); s.Held {
		e.Errorf("the refused renewal brought it back: %+v", s)
	}
}

func unknownGrants(e *env) {
	g := authority.Grant{Grant: fence.Grant{Token: 7, Nonce: "seven"}, Name: "never", Length: e.length}
	_, err := e.a.Renew(e.ctx, g)
	e.notHeld(err, g)
	e.notHeld(e.a.Release(e.ctx, g), g)
}

func closes(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	if e.b != e.a {
		e.closes(e.a)
		if s := e.inspect(e.b, "x"); !s.Held || s.Grant != g.Grant {
			e.Errorf("Close released the lease: %+v", s)
		}
	}
	e.closes(e.b)
	_, err := e.b.Acquire(e.ctx, e.ask("y"))
	_, err2 := e.b.Renew(e.ctx, g)
	_, err3 := e.b.Inspect(e.ctx, "x")
	for i, err := range []error{err, err2, err3, e.b.Release(e.ctx, g)} {
		if !errors.Is(err, authority.ErrClosed) {
			e.Errorf("call %d after Close: got %v; want ErrClosed", i, err)
		}
	}
}

func cancelled(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	start := time.Now()
	_, err := e.a.Acquire(done, e.ask("y"))
	_, err2 := e.a.Renew(done, g)
	_, err3 := e.a.Inspect(done, "x")
	for i, err := range []error{err, err2, err3, e.a.Release(done, g)} {
		if !errors.Is(err, context.Canceled) {
			e.Errorf("call %d with a done context: got %v", i, err)
		}
		if errors.Is(err, authority.ErrHeld) || errors.Is(err, authority.ErrNotHeld) {
			e.Errorf("call %d with a done context claims to know: %v", i, err)
		}
	}
	if d := time.Since(start); d > 10*time.Second {
		e.Errorf("four calls with a done context took %v", d)
	}
	e.renew(e.a, g)
}

func lists(e *env) {
	l, ok := e.b.(authority.Lister)
	if !ok {
		e.Fatalf("%T is no Lister", e.b)
	}
	want := []string{" ", "#x", "/a", "A", "a", "a//b", "b", "ä"}
	for i := range want {
		e.acquire(e.a, e.long(e.ask(want[(i*5+3)%len(want)])))
	}
	var got []string
	for s, err := range l.List(e.ctx) {
		if err != nil {
			e.Fatalf("List: %v", err)
		}
		got = append(got, s.Name)
		if in := e.inspect(e.a, s.Name); in.Grant != s.Grant || in.Held != s.Held || in.Holder != s.Holder {
			e.Errorf("List says %+v, Inspect %+v", s, in)
		}
	}
	if len(got) != len(want) {
		e.Fatalf("List gave %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			e.Fatalf("List gave %q, want %q", got, want)
		}
	}
	for range l.List(e.ctx) {
		break // a reader may stop early
	}
	e.acquire(e.a, e.ask("after"))
}
