package authoritytest

import (
	"errors"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

var grantCases = []Case{
	{"tokens grow", "Every grant's token is higher than every earlier token of the name: over release, over expiry, and whatever other names did.", nothing, tokensGrow},
	{"held is definite", "A refused Acquire says by whom the name is held, with which token, and for how long.", nothing, heldIsDefinite},
	{"lost answer", "Acquiring again with the nonce of the living grant returns that grant.", nothing, lostAnswer},
	{"renew extends from now", "Renew extends the grant by its full length from now.", nothing, renewExtends},
	{"stored length counts", "A lease is judged by the length that was stored with the grant, not by what a later claimant says.", nothing, storedLength},
	{"expiry is not early", "The authority lets go no earlier than one length after the last request that it answered.", nothing, expiryNotEarly},
	{"one winner", "Of any number who ask at once, exactly one is granted.", nothing, oneWinner},
	{"not re-entrant", "The same process that asks twice is refused the second time.", nothing, notReentrant},
	{"inspect", "Inspect tells free, held and ended apart, and keeps the last grant, unless the authority forgets what has ended.", nothing, inspects},
}

func tokensGrow(e *env) {
	last := e.acquire(e.a, e.ask("x"))
	e.release(e.a, last)
	step := func(what string, a authority.Authority) {
		g := e.acquire(a, e.ask("x"))
		if g.Token <= last.Token {
			e.Fatalf("token %d after %s, not above %d", g.Token, what, last.Token)
		}
		last = g
	}
	step("a release", e.b)
	e.pass(e.length)
	step("an expiry", e.a)
	e.release(e.a, last)
	for range 20 {
		g := e.acquire(e.b, e.ask("another"))
		e.release(e.b, g)
	}
	step("20 grants of another name", e.a)
}

func heldIsDefinite(e *env) {
	r := e.ask("x")
	r.Holder = "web-3 pid 4711"
	g := e.acquire(e.a, r)
	h := e.held(e.b, e.ask("x"))
	s := h.State
	if !s.Held || s.Grant != g.Grant || s.Holder != r.Holder || s.Length != e.length {
		e.Errorf("held by %+v, but the error says %+v", g, s)
	}
	if s.Left <= 0 || s.Left > e.length {
		e.Errorf("%v left of a lease of %v", s.Left, e.length)
	}
	if d := time.Since(s.Since); d < -time.Minute || d > time.Hour {
		e.Errorf("granted at %v, which is %v ago", s.Since, d)
	}
	e.renew(e.a, g) // the refused try has changed nothing
}

func lostAnswer(e *env) {
	r := e.ask("x")
	g := e.acquire(e.a, r)
	if again := e.acquire(e.b, r); again.Grant != g.Grant {
		e.Errorf("the grant was %+v, asked again %+v", g, again)
	}
	e.release(e.a, g)
	e.releasedBefore(e.a, g) // its answer was lost
}

func renewExtends(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	for range 3 {
		e.pass(e.length / 2)
		g = e.renew(e.b, g)
		if g.Length != e.length {
			e.Fatalf("renewed for %v, the lease is %v long", g.Length, e.length)
		}
		// Real time goes on between the two requests.
		if s := e.inspect(e.a, "x"); !s.Held || s.Left > e.length || s.Left < e.length*5/8 {
			e.Fatalf("after a renewal %v are left of %v", s.Left, e.length)
		}
	}
}

func storedLength(e *env) {
	g := e.acquire(e.a, e.ask("x"))
	short := e.ask("x")
	short.Length = e.length / 2
	e.pass(50 * time.Millisecond)
	if h := e.held(e.b, short); h.State.Length != e.length {
		e.Errorf("the lease is %v long, the claimant's error says %v", e.length, h.State.Length)
	}
	g.Length = time.Hour // a holder that tells another length than it was granted
	e.renew(e.a, g)
	if s := e.inspect(e.a, "x"); s.Length != e.length || s.Left > e.length {
		e.Errorf("granted for %v; after a renewal that spoke of an hour: %+v", e.length, s)
	}
}

func expiryNotEarly(e *env) {
	if e.advance != nil {
		g := e.acquire(e.a, e.ask("x"))
		e.pass(e.length - 1)
		e.held(e.b, e.ask("x"))
		e.renew(e.a, g)
		e.pass(e.length - 1)
		e.held(e.b, e.ask("x"))
		e.pass(1)
		e.acquire(e.b, e.ask("x"))
		return
	}
	start := time.Now()
	e.acquire(e.a, e.ask("x"))
	e.eventually("a free name", 5*e.length, func() bool {
		_, err := e.b.Acquire(e.ctx, e.ask("x"))
		return err == nil
	})
	if d := time.Since(start); d < e.length {
		e.Errorf("a lease of %v was given away after %v", e.length, d)
	}
}

func oneWinner(e *env) {
	const racers = 50
	var wg sync.WaitGroup
	errs := make([]error, racers)
	start := make(chan struct{})
	for i := range racers {
		a := e.a
		if i%2 == 1 {
			a = e.b
		}
		r := e.long(e.ask("x"))
		wg.Go(func() {
			<-start
			_, errs[i] = a.Acquire(e.ctx, r)
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, authority.ErrHeld) {
			e.Errorf("a loser got %v; want ErrHeld", err)
		}
	}
	if won != 1 {
		e.Errorf("%d of %d were granted the name", won, racers)
	}
}

func notReentrant(e *env) {
	r := e.ask("x")
	e.acquire(e.a, r)
	second := e.ask("x")
	second.Holder = r.Holder
	e.held(e.a, second)
}

func inspects(e *env) {
	if s := e.inspect(e.a, "x"); s.Held || !s.Grant.IsZero() {
		e.Errorf("never held: %+v", s)
	}
	g := e.acquire(e.a, e.ask("x"))
	if s := e.inspect(e.b, "x"); !s.Held || s.Grant != g.Grant || s.Left <= 0 {
		e.Errorf("held: %+v", s)
	}
	e.release(e.b, g)
	e.last("released", e.inspect(e.a, "x"), g)
	g = e.acquire(e.a, e.ask("x"))
	e.pass(e.length)
	e.last("expired", e.inspect(e.b, "x"), g)
}
