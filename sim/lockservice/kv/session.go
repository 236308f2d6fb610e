package kv

import (
	"errors"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Loose is what a session leaves out, to see what it is good for. Its zero value
// keeps every rule.
type Loose struct {
	NoOwnLease   bool // a lock that is not renewed lives as long as the shared lease
	EarlyDelete  bool // it is deleted at its stop time, while its work may still be returning
	ReadSettles  bool // a read that finds nothing settles a create without an answer
	LeaseProves  bool // a keep-alive that is answered proves every lock of the lease
	SameBatch    bool // a transaction may hold two creates of one name
	AnyAnswer    bool // keep-alives overlap, and any answer counts for the last one sent
	GatewayLease bool // the server keeps its clients' leases alive by itself
}

// Config is a session's settings.
type Config struct {
	Client  string
	Length  time.Duration
	Margin  time.Duration
	Timeout time.Duration // of a transaction, and of a keep-alive
	Loose   Loose
}

// Session is one client's: all its locks lie under one lease. It runs in the
// process of its home machine; further machines that ask are other tasks of the
// same process.
type Session struct {
	cfg  Config
	s    *Server
	home *world.Machine

	// The process's memory.
	lease    int               // 0: none
	base     authority.Instant // when the last proven keep-alive was sent, by home's clock
	guard    int
	granting bool
	pending  []*want
	flight   *flight
	locks    []*lock
	round    *round
	next     []*renewal // for the next round
	rounds   int
}

// want is a create that somebody waits for.
type want struct {
	create
	answer func(protocol.Answer)
}

// flight is the transaction that is under way; there is one at a time.
type flight struct {
	batch []*want
	sent  authority.Instant
	limit *world.Alarm
}

// lock is one that this client holds.
type lock struct {
	name  string
	grant fence.Grant
	from  authority.Instant // its own lease counts from here
	end   *world.Alarm
}

var errNotCreated = errors.New("the create was not carried out")

// NewSession makes a session on its home machine.
func NewSession(s *Server, home *world.Machine, cfg Config) *Session {
	c := &Session{cfg: cfg, s: s, home: home}
	home.OnCrash(func() { *c = Session{cfg: cfg, s: s, home: home, rounds: c.rounds} })
	return c
}

func (c *Session) call(f func(answer func(func()))) { c.home.World().Net.Call(c.home, c.s.m, f) }

// on is an instant of home's clock on another machine's: to tasks of one process
// they are one clock.
func (c *Session) on(m *world.Machine, at authority.Instant) authority.Instant {
	return m.Mono.Now().Add(-c.home.Mono.Now().Sub(at))
}

// Do is a request of a task; done is called on its machine.
func (c *Session) Do(from *world.Machine, ask protocol.Ask, done func(protocol.Answer)) {
	answer := func(a protocol.Answer) {
		if a.Grant.From != 0 {
			a.Grant.From = c.on(from, a.Grant.From)
		}
		from.Deliver(world.OrderMessage, func() { done(a) })
	}
	switch ask.Op {
	case protocol.OpAcquire:
		w := &want{create{client: c.cfg.Client, name: ask.Name, nonce: ask.Nonce, holder: ask.Holder}, answer}
		c.pending = append(c.pending, w)
		c.home.Deliver(world.OrderLast, c.flush)
	case protocol.OpRenew:
		c.next = append(c.next, &renewal{ask, answer})
		c.home.Deliver(world.OrderLast, c.keep)
	case protocol.OpRelease:
		c.release(ask, answer)
	case protocol.OpInspect:
		c.call(func(reply func(func())) {
			st := c.s.State(ask.Name)
			reply(func() { answer(protocol.Answer{State: st}) })
		})
	default:
		answer(protocol.Answer{Err: authority.ErrInvalid})
	}
}

// flush sends what waits, in one transaction.
func (c *Session) flush() {
	switch {
	case c.flight != nil || c.granting || len(c.pending) == 0:
		return
	case c.lease == 0 || c.idle():
		c.lease = 0 // it runs out by itself, and nothing lies under it
		c.newLease()
		return
	}
	f := &flight{sent: c.home.Mono.Now()}
	var names []string
	c.pending = slices.DeleteFunc(c.pending, func(w *want) bool {
		if slices.Contains(names, w.name) && !c.cfg.Loose.SameBatch {
			return false // its turn is the next transaction
		}
		names = append(names, w.name)
		w.guard, w.lease = c.guard, c.lease
		f.batch = append(f.batch, w)
		return true
	})
	c.flight = f
	f.limit = c.home.Mono.After(c.cfg.Timeout, func() { c.settle(f) })
	c.call(func(reply func(func())) {
		c.s.late("create", func() {
			results := c.s.txn(creates(f.batch))
			reply(func() { c.created(f, results) })
		})
	})
}

// idle says that no lock has kept the lease alive for a while: what is left of it
// would be too short for a new lock.
func (c *Session) idle() bool {
	return len(c.locks) == 0 && c.home.Mono.Now().Sub(c.base) > c.cfg.Length/4
}

func creates(batch []*want) []create {
	var all []create
	for _, w := range batch {
		all = append(all, w.create)
	}
	return all
}

// newLease asks for a lease until there is one.
func (c *Session) newLease() {
	c.granting = true
	sent := c.home.Mono.Now()
	again := c.home.Mono.After(c.cfg.Timeout, func() { c.granting = false; c.flush() })
	c.call(func(reply func(func())) {
		id := c.s.grant(c.cfg.Client, c.cfg.Length)
		if c.cfg.Loose.GatewayLease {
			c.s.keepForEver(id)
		}
		reply(func() {
			if c.lease == 0 && c.granting {
				again.Stop()
				c.granting, c.lease, c.base = false, id, sent
				c.flush()
			}
		})
	})
}

// created takes a transaction's answer, unless it was settled before.
func (c *Session) created(f *flight, results []created) {
	if c.flight != f {
		return
	}
	f.limit.Stop()
	c.flight = nil
	for i, w := range f.batch {
		r := results[i]
		switch {
		case r.ok, r.held != nil && r.held.nonce == w.nonce: // the second, where the network brought two
			c.hold(w, max(r.rev, r.place()), f.sent)
		case r.held != nil:
			w.answer(protocol.Answer{Err: &authority.HeldError{State: c.stateOf(r.held)}})
		default:
			if r.noLease && c.lease == w.lease { // lost: never to be renewed again
				c.lease = 0
			}
			w.answer(protocol.Answer{Err: errNotCreated})
		}
	}
	c.flush()
}

func (c *Session) stateOf(p *place) authority.State {
	return authority.State{Name: p.name, Held: true, Holder: p.holder, Grant: fence.Grant{Token: fence.Token(p.rev), Nonce: p.nonce}}
}

// hold notes a lock: it counts from when the shared lease was proven last, at the
// latest from when its create was sent.
func (c *Session) hold(w *want, rev int64, sent authority.Instant) {
	l := &lock{name: w.name, grant: fence.Grant{Token: fence.Token(rev), Nonce: w.nonce}, from: min(sent, c.base)}
	c.locks = append(c.locks, l)
	c.ownLease(l)
	w.answer(protocol.Answer{Grant: c.grantOf(l)})
}

func (c *Session) grantOf(l *lock) authority.Grant {
	return authority.Grant{Grant: l.grant, Name: l.name, Length: c.cfg.Length, From: l.from}
}

// settle finds out what became of a transaction without an answer: a higher guard
// makes sure that it is not carried out any more, and then a read says whether it
// was. A read alone says nothing: the transaction may still be on its way.
func (c *Session) settle(f *flight) {
	if c.flight != f {
		return
	}
	if !c.cfg.Loose.ReadSettles {
		c.guard++
	}
	guard := c.guard
	f.limit = c.home.Mono.After(c.cfg.Timeout, func() { c.settle(f) })
	c.call(func(reply func(func())) {
		c.s.guards[c.cfg.Client] = max(c.s.guards[c.cfg.Client], guard)
		found := make([]created, len(f.batch))
		for i, w := range f.batch {
			if p := c.s.first(w.name); p != nil {
				copied := *p
				found[i] = created{ok: p.nonce == w.nonce, rev: p.rev, held: &copied}
			}
		}
		c.s.log(world.Event{What: "settled-create", Name: f.batch[0].name, Peer: c.cfg.Client, State: state(found[0]), Count: guard})
		reply(func() { c.created(f, found) })
	})
}

// place is the revision of the key that was there.
func (r created) place() int64 {
	if r.held == nil {
		return 0
	}
	return r.held.rev
}

func state(r created) string {
	if r.ok {
		return "there"
	}
	return "not there"
}
