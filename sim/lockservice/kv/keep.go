package kv

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// renewal is a task's, of one lock.
type renewal struct {
	ask    protocol.Ask
	answer func(protocol.Answer)
}

// round is a keep-alive of the shared lease, and a read of the keys under it,
// that was sent with it or later. It renews every lock that asked before.
type round struct {
	n    int
	sent authority.Instant
	who  []*renewal
}

// keep begins a round. Answers carry no request's id, so one is under way at a
// time: what comes meanwhile waits for the next. A round without an answer ends
// its stream, and what still comes on that is not heard.
func (c *Session) keep() {
	if len(c.next) == 0 || c.round != nil && !c.cfg.Loose.AnyAnswer {
		return
	}
	c.rounds++
	r := &round{n: c.rounds, sent: c.home.Mono.Now(), who: c.next}
	if c.round != nil { // they overlap, and nobody can tell their answers apart
		r.who = append(c.round.who, r.who...)
	}
	c.next, c.round = nil, r
	c.home.Mono.After(c.cfg.Timeout, func() {
		if c.round == r && !c.cfg.Loose.AnyAnswer {
			c.round = nil
			c.keep()
		}
	})
	lease := c.lease
	c.call(func(reply func(func())) {
		alive := c.s.keepAlive(lease)
		keys := map[fence.Grant]bool{} // looked up only
		for _, p := range c.s.places {
			if p.lease == lease {
				keys[fence.Grant{Token: fence.Token(p.rev), Nonce: p.nonce}] = true
			}
		}
		c.s.late("keep-alive", func() { reply(func() { c.kept(r.n, alive, keys) }) })
	})
}

func (c *Session) kept(n int, alive bool, keys map[fence.Grant]bool) {
	r := c.round
	if r == nil || r.n != n && !c.cfg.Loose.AnyAnswer {
		return
	}
	c.round = nil
	if !alive { // never to be renewed again
		c.lease = 0
	} else {
		c.base = max(c.base, r.sent)
	}
	for _, w := range r.who {
		l := c.lock(w.ask)
		if l == nil || !alive || !keys[l.grant] && !c.cfg.Loose.LeaseProves {
			c.forget(w.ask)
			w.answer(protocol.Answer{Err: &authority.NotHeldError{Grant: w.ask.Grant, State: authority.State{Name: w.ask.Name}}})
			continue
		}
		l.from = max(l.from, r.sent)
		c.ownLease(l)
		w.answer(protocol.Answer{Grant: c.grantOf(l)})
	}
	c.keep()
}

func (c *Session) lock(a protocol.Ask) *lock {
	for _, l := range c.locks {
		if l.name == a.Name && l.grant == a.Grant {
			return l
		}
	}
	return nil
}

func (c *Session) forget(a protocol.Ask) {
	if l := c.lock(a); l != nil {
		l.end.Stop()
		c.locks = slices.DeleteFunc(c.locks, func(o *lock) bool { return o == l })
	}
}

// ownLease makes a lock end by itself: the shared lease, which others keep alive,
// would hold it for ever.
func (c *Session) ownLease(l *lock) {
	l.end.Stop()
	if c.cfg.Loose.NoOwnLease {
		return
	}
	end := l.from.Add(c.cfg.Length)
	if c.cfg.Loose.EarlyDelete {
		end = end.Add(-c.cfg.Margin)
	}
	l.end = c.home.Mono.Alarm(end, world.OrderTimer, func() { c.lapse(l) })
}

// lapse deletes a lock that was not renewed, until it is surely gone.
func (c *Session) lapse(l *lock) {
	c.locks = slices.DeleteFunc(c.locks, func(o *lock) bool { return o == l })
	var try func()
	try = func() {
		again := c.home.Mono.After(c.cfg.Timeout, try)
		c.call(func(reply func(func())) {
			c.s.delete(l.name, int64(l.grant.Token), l.grant.Nonce, "not renewed: its own lease is over")
			reply(again.Stop)
		})
	}
	try()
}

func (c *Session) release(a protocol.Ask, answer func(protocol.Answer)) {
	c.forget(a)
	c.call(func(reply func(func())) {
		found := c.s.delete(a.Name, int64(a.Grant.Token), a.Grant.Nonce, "released")
		reply(func() {
			if found {
				answer(protocol.Answer{})
				return
			}
			answer(protocol.Answer{Err: &authority.NotHeldError{Grant: a.Grant, State: authority.State{Name: a.Name}}})
		})
	})
}

// keepForEver is a gateway's own keep-alive of a client's lease: it says that the
// gateway lives.
func (s *Server) keepForEver(id int) {
	l := s.lease(id)
	if l == nil {
		return
	}
	s.m.Mono.After(l.length/3, func() {
		if s.keepAlive(id) {
			s.keepForEver(id)
		}
	})
}

// Hold makes the next create hang on its way here, or the next answer to a
// keep-alive on its way back.
func (s *Server) Hold(what string, d time.Duration) { s.holds[what] = d }

func (s *Server) late(what string, f func()) {
	d := s.holds[what]
	if d == 0 {
		f()
		return
	}
	delete(s.holds, what)
	s.log(world.Event{What: "held-up", Name: what, Until: s.w.Now() + d})
	s.m.Mono.After(d, f)
}

// Break deletes a key by hand, whoever holds it.
func (s *Server) Break(name string) { s.delete(name, 0, "", "by hand") }
