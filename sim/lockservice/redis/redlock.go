package redis

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// RedlockConfig is a Redlock's settings.
type RedlockConfig struct {
	Masters int           // 5 if zero
	Prefix  string        // of the machines' names; "n" if empty
	Timeout time.Duration // how long a client waits for one master; 50 ms if zero
	Persist bool          // every write is synced before it is answered
}

// Redlock is a lock on a majority of independent masters. It gives out no token:
// there is nothing that only grows in it.
type Redlock struct {
	w       *world.World
	cfg     RedlockConfig
	masters []*server
	clients map[string]*client // by name and value; looked up only
}

// NewRedlock makes the machines of the masters.
func NewRedlock(w *world.World, cfg RedlockConfig) *Redlock {
	if cfg.Masters == 0 {
		cfg.Masters = 5
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "n"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 50 * time.Millisecond
	}
	r := &Redlock{w: w, cfg: cfg, clients: map[string]*client{}}
	for i := range cfg.Masters {
		r.masters = append(r.masters, newServer(w.Machine(fmt.Sprintf("%s%d", cfg.Prefix, i+1)), cfg.Persist))
	}
	return r
}

// Machines are the masters, in order.
func (r *Redlock) Machines() []*world.Machine {
	var all []*world.Machine
	for _, s := range r.masters {
		all = append(all, s.m)
	}
	return all
}

// Holds lists the masters, from 1, that keep a name for a value now.
func (r *Redlock) Holds(name, value string) []int {
	var held []int
	for i, s := range r.masters {
		if st := s.state(name); s.m.Up() && st.Held && st.Grant.Nonce == value {
			held = append(held, i+1)
		}
	}
	return held
}

// client drives a protocol.Quorum, which decides.
type client struct {
	r     *Redlock
	from  *world.Machine
	q     *protocol.Quorum
	name  string
	alarm *world.Alarm
	done  func(protocol.Counted)
}

// client is the one of a name and a value. Who releases what it has never asked
// for is one, too.
func (r *Redlock) client(from *world.Machine, cfg protocol.QuorumConfig, again bool) *client {
	key := cfg.Name + "=" + cfg.Value
	c := r.clients[key]
	if c == nil || again {
		cfg.Masters, cfg.Timeout = len(r.masters), r.cfg.Timeout
		c = &client{r: r, from: from, q: protocol.NewQuorum(cfg), name: cfg.Name, done: func(protocol.Counted) {}}
		r.clients[key] = c
	}
	return c
}

// Acquire asks the masters of a list (all, if it is empty) in parallel. The time is
// the client's monotonic clock. done is called once.
func (r *Redlock) Acquire(from *world.Machine, name, value string, length time.Duration, masters []int, done func(protocol.Counted)) {
	c := r.client(from, protocol.QuorumConfig{Name: name, Value: value, Length: length, Reach: masters}, true)
	c.done = done
	c.step(protocol.Start{})
}

// Release deletes a name on every master that keeps it for the value.
func (r *Redlock) Release(from *world.Machine, name, value string) {
	r.client(from, protocol.QuorumConfig{Name: name, Value: value}, false).step(protocol.Release{})
}

func (c *client) step(e protocol.Event) {
	for _, effect := range c.q.Step(c.from.Mono.Now(), e) {
		switch e := effect.(type) {
		case protocol.Arm:
			c.alarm.Stop()
			c.alarm = nil
			if e.At != 0 {
				c.alarm = c.from.Mono.Alarm(e.At, world.OrderTimer, func() { c.step(protocol.Tick{}) })
			}
		case protocol.Borrow:
			c.borrow(e)
		case protocol.Return:
			c.giveBack(e)
		case protocol.Counted:
			c.counted(e)
		}
	}
}

func (c *client) borrow(e protocol.Borrow) {
	s := c.r.masters[e.Master-1]
	lent := func(yes bool) func() {
		return func() { c.step(protocol.Lent{Master: e.Master, Yes: yes}) }
	}
	reach(c.from, s.m, func(answer func(func())) {
		yes := s.setNX(e.Name, e.Value, c.from.Name, e.Length)
		s.saved(func() { answer(lent(yes)) })
	}, lent(false))
}

func (s *server) setNX(name, value, holder string, length time.Duration) bool {
	if e := s.get(name); e != nil {
		s.log(world.Event{What: "set-refused", Name: name, Peer: holder, Why: "held by " + e.holder})
		return false
	}
	s.set(entry{name: name, value: fence.Grant{Nonce: value}, holder: holder, length: length})
	s.log(world.Event{What: "key-created", Name: name, Peer: holder, Deadline: s.m.Wall.When(s.get(name).expires)})
	return true
}

func (c *client) giveBack(e protocol.Return) {
	s := c.r.masters[e.Master-1]
	reach(c.from, s.m, func(func(func())) {
		if kept := s.get(e.Name); kept != nil && kept.value.Nonce == e.Value {
			s.drop(e.Name)
			s.log(world.Event{What: "key-deleted", Name: e.Name, Peer: c.from.Name, Why: "released"})
			s.saved(func() {})
		}
	}, func() {})
}

func (c *client) counted(counted protocol.Counted) {
	e := world.Event{
		Who: c.from.Name, What: "redlock-failed", Name: c.name, Count: len(counted.Got),
		Why: "of the masters " + strings.Trim(strings.ReplaceAll(fmt.Sprint(counted.Got), " ", ", "), "[]"),
	}
	if counted.Held {
		e.What, e.Until = "redlock-held", c.r.w.Now()+counted.Validity
	}
	c.r.w.Log.Add(e)
	c.done(counted)
}
