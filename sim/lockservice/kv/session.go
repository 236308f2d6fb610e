package kv

import (
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Config is a session's settings.
type Config struct {
	Client  string
	Length  time.Duration
	Margin  time.Duration
	Timeout time.Duration // of a transaction, and of a keep-alive
	Without protocol.SharerRules
}

// Session is one client's: all its locks lie under one lease. It runs in the
// process of its home machine; further machines that ask are other tasks of the
// same process. It drives a protocol.Sharer.
type Session struct {
	cfg  Config
	s    *Server
	home *world.Machine

	// The process's memory.
	m     *protocol.Sharer
	alarm *world.Alarm
	asks  map[uint64]func(protocol.Reply) // without an answer
	n     uint64
}

// NewSession makes a session on its home machine.
func NewSession(s *Server, home *world.Machine, cfg Config) *Session {
	c := &Session{cfg: cfg, s: s, home: home}
	c.begin()
	home.OnCrash(c.begin)
	return c
}

// begin is what a new process knows.
func (c *Session) begin() {
	c.m = protocol.NewSharer(protocol.SharerConfig{Length: c.cfg.Length, Margin: c.cfg.Margin, Timeout: c.cfg.Timeout, Without: c.cfg.Without})
	c.alarm, c.asks = nil, map[uint64]func(protocol.Reply){}
}

// Lease is the shared lease; 0 while there is none.
func (c *Session) Lease() int { return int(c.m.Lease()) }

// on is an instant of home's clock on another machine's: to tasks of one process
// they are one clock.
func (c *Session) on(m *world.Machine, at authority.Instant) authority.Instant {
	return m.Mono.Now().Add(-c.home.Mono.Now().Sub(at))
}

// Do is a request of a task; done is called on its machine.
func (c *Session) Do(from *world.Machine, ask protocol.Ask, done func(protocol.Answer)) {
	answer := func(r protocol.Reply) {
		a := protocol.Answer{Grant: r.Grant, State: r.State, Err: r.Err}
		if a.Grant.From != 0 {
			a.Grant.From = c.on(from, a.Grant.From)
		}
		from.Deliver(world.OrderMessage, func() { done(a) })
	}
	if ask.Op == protocol.OpInspect {
		c.call(func(reply func(func())) {
			st := c.s.State(ask.Name)
			reply(func() { answer(protocol.Reply{State: st}) })
		})
		return
	}
	c.n++
	ask.ID = c.n
	c.asks[ask.ID] = answer
	c.step(c.m, ask)
}

// step tells the machine of an event. What an earlier process began is dropped.
func (c *Session) step(m *protocol.Sharer, e protocol.Event) {
	if m != c.m {
		return
	}
	for _, effect := range m.Step(c.home.Mono.Now(), e) {
		c.perform(m, effect)
	}
}

func (c *Session) perform(m *protocol.Sharer, effect protocol.Effect) {
	switch e := effect.(type) {
	case protocol.Arm:
		c.alarm.Stop()
		c.alarm = nil
		if e.At != 0 {
			c.alarm = c.home.Mono.Alarm(e.At, world.OrderTimer, func() { c.step(m, protocol.Tick{}) })
		}
	case protocol.Yield:
		c.home.Deliver(world.OrderLast, func() { c.step(m, protocol.TurnOver{}) })
	case protocol.Reply:
		if answer := c.asks[e.ID]; answer != nil {
			delete(c.asks, e.ID)
			answer(e)
		}
	default:
		c.request(m, effect)
	}
}

func (c *Session) call(f func(answer func(func()))) { c.home.World().Net.Call(c.home, c.s.m, f) }

// request carries a request to the server, and its answer back.
func (c *Session) request(m *protocol.Sharer, effect protocol.Effect) {
	c.call(func(reply func(func())) {
		back := func(e protocol.Event) { reply(func() { c.step(m, e) }) }
		switch e := effect.(type) {
		case protocol.OpenLease:
			lease, guard := c.s.open(c.cfg.Client, c.cfg.Length)
			back(protocol.LeaseOpened{Try: e.Try, Lease: int64(lease), Guard: int64(guard)})
		case protocol.CreateKeys:
			c.s.late("create", func() { back(protocol.KeysCreated{Try: e.Try, Results: results(c.s.txn(c.creates(e)))}) })
		case protocol.SettleKeys:
			back(protocol.KeysCreated{Try: e.Try, Results: results(c.s.settle(c.cfg.Client, e))})
		case protocol.KeepLease:
			kept := protocol.LeaseKept{Round: e.Round, Alive: c.s.keepAlive(int(e.Lease)), Keys: c.s.keys(int(e.Lease))}
			c.s.late("keep-alive", func() { back(kept) })
		case protocol.DropKey:
			why := "released"
			if e.Lapse {
				why = "not renewed: its own lease is over"
			}
			found := c.s.delete(e.Key.Name, int64(e.Key.Grant.Token), e.Key.Grant.Nonce, why)
			back(protocol.KeyDropped{Try: e.Try, Found: found})
		}
	})
}

func (c *Session) creates(e protocol.CreateKeys) []create {
	var all []create
	for _, k := range e.Keys {
		all = append(all, create{client: c.cfg.Client, name: k.Name, nonce: k.Nonce, holder: k.Holder, guard: int(e.Guard), lease: int(e.Lease)})
	}
	return all
}

// settle raises a client's guard, and reads who has the names.
func (s *Server) settle(client string, e protocol.SettleKeys) []created {
	s.guards[client] = max(s.guards[client], int(e.Guard))
	found := make([]created, len(e.Keys))
	state := "not there"
	for i, k := range e.Keys {
		p := s.first(k.Name)
		if p == nil {
			continue
		}
		copied := *p
		found[i] = created{ok: p.nonce == k.Nonce, rev: p.rev, held: &copied}
		if i == 0 && found[i].ok {
			state = "there"
		}
	}
	s.log(world.Event{What: "settled-create", Name: e.Keys[0].Name, Peer: client, State: state, Count: int(e.Guard)})
	return found
}

// keys are those under a lease.
func (s *Server) keys(lease int) []protocol.LeaseKey {
	var all []protocol.LeaseKey
	for _, p := range s.places {
		if p.lease == lease {
			all = append(all, protocol.LeaseKey{Name: p.name, Grant: fence.Grant{Token: fence.Token(p.rev), Nonce: p.nonce}})
		}
	}
	return all
}

func results(all []created) []protocol.KeyResult {
	out := make([]protocol.KeyResult, len(all))
	for i, r := range all {
		out[i] = protocol.KeyResult{Created: r.ok, Token: fence.Token(r.rev), NoLease: r.noLease}
		if p := r.held; p != nil {
			out[i].Held = authority.State{Name: p.name, Held: true, Holder: p.holder, Grant: fence.Grant{Token: fence.Token(p.rev), Nonce: p.nonce}}
		}
	}
	return out
}
