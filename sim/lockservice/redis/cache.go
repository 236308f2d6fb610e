package redis

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// CacheConfig is a cache's settings.
type CacheConfig struct {
	Prefix  string         // of the machines' names; "n" if empty: n1 is the primary, n2 the replica
	Lag     time.Duration  // of the replica, beside the delay of the network
	Counter int64          // of INCR at the start
	Persist bool           // every write is synced before it is answered
	Without protocol.Rules // conditional-release: a release deletes whatever is there
}

// Cache is a lock on a primary with an asynchronous replica. The token comes
// from INCR on one counter key.
type Cache struct {
	w       *world.World
	cfg     CacheConfig
	servers [2]*server
	primary int
}

// ErrDown: the connection was refused. Nothing was changed.
var ErrDown = errors.New("the cache's primary is down")

// NewCache makes the machines of a cache.
func NewCache(w *world.World, cfg CacheConfig) *Cache {
	if cfg.Prefix == "" {
		cfg.Prefix = "n"
	}
	c := &Cache{w: w, cfg: cfg}
	for i := range c.servers {
		s := newServer(w.Machine(fmt.Sprintf("%s%d", cfg.Prefix, i+1)), cfg.Persist)
		s.mem.counter, s.disk.counter = cfg.Counter, cfg.Counter
		c.servers[i] = s
	}
	return c
}

// Machines are the primary of the start, and the replica.
func (c *Cache) Machines() []*world.Machine {
	return []*world.Machine{c.servers[0].m, c.servers[1].m}
}

// Primary is the machine that is asked now.
func (c *Cache) Primary() *world.Machine { return c.servers[c.primary].m }

// Counter is where the primary's counter stands.
func (c *Cache) Counter() int64 { return c.servers[c.primary].mem.counter }

// State is what the primary knows of a name, without asking it.
func (c *Cache) State(name string) authority.State { return c.servers[c.primary].state(name) }

// Promote makes the other machine the primary, with whatever has reached it. All
// clients learn of it at once.
func (c *Cache) Promote() {
	c.primary = 1 - c.primary
	s := c.servers[c.primary]
	s.log(world.Event{What: "promoted", Rev: uint64(s.mem.counter), Why: "with what has reached it"})
}

// Do sends a request from a machine, as lockservice.Service.Do does. It knows
// acquire, renew, release, inspect and bump (further INCRs).
func (c *Cache) Do(from *world.Machine, ask protocol.Ask, done func(protocol.Reply)) {
	at := c.primary
	s := c.servers[at]
	answered := false
	answer := func(r protocol.Reply) {
		if !answered { // a message may come twice
			answered = true
			r.ID, r.Op = ask.ID, ask.Op
			done(r)
		}
	}
	reach(from, s.m, func(back func(func())) {
		r := c.do(at, ask)
		s.saved(func() { back(func() { answer(r) }) })
	}, func() { answer(protocol.Reply{Err: ErrDown}) })
}

// do is one script at the primary.
func (c *Cache) do(at int, a protocol.Ask) protocol.Reply {
	s := c.servers[at]
	e := s.get(a.Name)
	switch a.Op {
	case protocol.OpAcquire:
		return c.acquire(at, a)
	case protocol.OpInspect:
		return protocol.Reply{State: s.state(a.Name)}
	case protocol.OpBump:
		s.mem.counter += a.By
		c.replicate(at)
		return protocol.Reply{}
	case protocol.OpRenew:
		if e == nil || e.value != a.Grant {
			return notHeld(s, a)
		}
		s.set(*e)
		c.replicate(at)
		return protocol.Reply{Grant: granted(s.get(a.Name))}
	case protocol.OpRelease:
		whatever := a.Grant.IsZero() || c.cfg.Without.Has(protocol.RuleConditional)
		if e == nil || e.value != a.Grant && !whatever {
			return notHeld(s, a)
		}
		s.log(world.Event{What: "key-deleted", Name: a.Name, Token: uint64(e.value.Token), Why: "released"})
		s.drop(a.Name)
		c.replicate(at)
		return protocol.Reply{}
	}
	return protocol.Reply{Err: fmt.Errorf("%w: a cache knows no %v", authority.ErrInvalid, a.Op)}
}

func (c *Cache) acquire(at int, a protocol.Ask) protocol.Reply {
	s := c.servers[at]
	if e := s.get(a.Name); e != nil {
		if e.value.Nonce != a.Nonce {
			return protocol.Reply{Err: &authority.HeldError{State: s.state(a.Name)}}
		}
		return protocol.Reply{Grant: granted(e)}
	}
	s.mem.counter++
	s.set(entry{name: a.Name, value: fence.Grant{Token: fence.Token(s.mem.counter), Nonce: a.Nonce}, holder: a.Holder, length: a.Length})
	e := s.get(a.Name)
	s.log(world.Event{
		What: "key-created", Name: a.Name, Token: uint64(e.value.Token), Rev: uint64(s.mem.counter),
		Peer: a.Holder, Deadline: s.m.Wall.When(e.expires),
	})
	c.replicate(at)
	return protocol.Reply{Grant: granted(e)}
}

// replicate sends what the primary holds now to the other machine, which has it
// a lag later. Nobody waits for it, and a crash before that loses it.
func (c *Cache) replicate(at int) {
	s, other := c.servers[at], c.servers[1-at]
	now := s.mem.clone()
	s.m.Mono.After(c.cfg.Lag, func() {
		c.w.Net.Send(s.m, other.m, func() {
			if c.primary != at {
				return // it leads by now, and takes nothing from the old one
			}
			other.mem = now.clone()
			other.watch()
			other.saved(func() {})
			other.log(world.Event{What: "replicated", Rev: uint64(now.counter), Detail: true})
		})
	})
}

func granted(e *entry) authority.Grant {
	return authority.Grant{Grant: e.value, Name: e.name, Length: e.length}
}

func notHeld(s *server, a protocol.Ask) protocol.Reply {
	return protocol.Reply{Err: &authority.NotHeldError{Grant: a.Grant, State: s.state(a.Name)}}
}
