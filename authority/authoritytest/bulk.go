package authoritytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

var bulkCases = []Case{
	{"renew all", "RenewAll renews each grant by its full length from now, and answers in the order of the question.", bulk, renewsAll},
	{"renew all, some ended", "One RenewAll answers for living, released, expired, forged and unknown grants, each as Renew does.", bulk, renewsSome},
	{"renew all, later", "RenewAll returns soon after its context is done, claims nothing then, and knows after Close that it is closed.", bulk, renewsLater},
}

func (e *env) bulk(a authority.Authority) authority.BulkRenewer {
	e.Helper()
	b, ok := a.(authority.BulkRenewer)
	if !ok {
		e.Fatalf("%T is no BulkRenewer", a)
	}
	return b
}

func (e *env) renewAll(a authority.Authority, grants []authority.Grant) []authority.Renewal {
	e.Helper()
	asked := append([]authority.Grant(nil), grants...)
	answers := e.bulk(a).RenewAll(e.ctx, asked)
	if len(answers) != len(grants) {
		e.Fatalf("%d answers for %d grants", len(answers), len(grants))
	}
	for i := range grants {
		if asked[i] != grants[i] {
			e.Fatalf("RenewAll changed its argument: %+v became %+v", grants[i], asked[i])
		}
	}
	return answers
}

func renewsAll(e *env) {
	if got := e.renewAll(e.a, nil); len(got) != 0 {
		e.Errorf("no grants, and the answers %+v", got)
	}
	var grants []authority.Grant
	for i := range 150 { // more than some stores take at once
		r := e.ask(fmt.Sprint("x", i*37%150))
		if i < 147 { // the others must not run out while these are acquired
			r = e.long(r)
		}
		grants = append(grants, e.acquire([]authority.Authority{e.a, e.b}[i%2], r))
	}
	for range 3 {
		e.pass(e.length / 2)
		for i, r := range e.renewAll(e.a, grants) {
			if r.Err != nil || r.Grant.Grant != grants[i].Grant || r.Grant.Name != grants[i].Name || r.Grant.Length != grants[i].Length {
				e.Fatalf("%+v was renewed as %+v, %v", grants[i], r.Grant, r.Err)
			}
		}
		for _, g := range []authority.Grant{grants[0], grants[75], grants[147], grants[149]} {
			// Real time goes on between the two requests.
			if s := e.inspect(e.b, g.Name); !s.Held || s.Grant != g.Grant || s.Left > g.Length || s.Left < g.Length*5/8 {
				e.Fatalf("after a renewal: %+v", s)
			}
		}
	}
}

func renewsSome(e *env) {
	expired := e.acquire(e.a, e.ask("expired"))
	followed := e.acquire(e.a, e.ask("followed"))
	e.pass(e.length)
	e.eventually("expiry", 5*e.length, func() bool { return !e.inspect(e.a, "expired").Held && !e.inspect(e.a, "followed").Held })
	next := e.acquire(e.b, e.ask("followed"))
	alive, last := e.acquire(e.a, e.ask("alive")), e.acquire(e.a, e.ask("last"))
	released := e.acquire(e.a, e.ask("released"))
	e.release(e.b, released)
	forged := alive
	forged.Nonce = "other"
	unknown := authority.Grant{Grant: fence.Grant{Token: 7, Nonce: "seven"}, Name: "never", Length: e.length}
	bad := alive
	bad.Name = ""
	twice := alive

	grants := []authority.Grant{expired, alive, followed, forged, next, released, unknown, twice, bad, last}
	living := map[int]bool{1: true, 4: true, 7: true, 9: true}
	for i, r := range e.renewAll(e.a, grants) {
		g := grants[i]
		switch {
		case living[i]:
			if r.Err != nil || r.Grant.Grant != g.Grant || r.Grant.Name != g.Name {
				e.Errorf("answer %d: %+v, %v; asked was %+v", i, r.Grant, r.Err, g)
			}
		case g.Name == "":
			e.invalid("a grant without a name", r.Err)
		default:
			s := e.notHeld(r.Err, g)
			if i == 2 && (!s.Held || s.Grant != next.Grant) {
				e.Errorf("the successor is %v, the error says %+v", next.Grant, s)
			}
		}
		if _, err := e.a.Renew(e.ctx, g); (err == nil) != (r.Err == nil) ||
			errors.Is(err, authority.ErrNotHeld) != errors.Is(r.Err, authority.ErrNotHeld) {
			e.Errorf("answer %d is %v, Renew says %v", i, r.Err, err)
		}
	}
	if s := e.inspect(e.b, "released"); s.Held {
		e.Errorf("the refused renewal brought it back: %+v", s)
	}
}

func renewsLater(e *env) {
	grants := []authority.Grant{e.acquire(e.a, e.ask("x")), e.acquire(e.a, e.ask("y"))}
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	start := time.Now()
	answers := e.bulk(e.a).RenewAll(done, grants)
	if d := time.Since(start); d > 10*time.Second || len(answers) != len(grants) {
		e.Errorf("with a done context: %d answers after %v", len(answers), d)
	}
	for _, r := range answers {
		if !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, authority.ErrNotHeld) {
			e.Errorf("with a done context: %v", r.Err)
		}
	}
	for _, r := range e.renewAll(e.a, grants) {
		if r.Err != nil {
			e.Errorf("a done context cost the lease: %v", r.Err)
		}
	}
	e.closes(e.a)
	for _, r := range e.renewAll(e.a, grants) {
		if !errors.Is(r.Err, authority.ErrClosed) {
			e.Errorf("after Close: got %v; want ErrClosed", r.Err)
		}
	}
}
