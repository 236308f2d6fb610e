package actor

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Taker takes several leases one after the other, in a given order, keeps them
// while it works, and gives them back.
type Taker struct {
	stage *Stage
	m     *world.Machine
	order []string
	work  time.Duration
	held  []*Holder
	done  bool
}

// NewTaker makes a taker that waits for Start.
func NewTaker(s *Stage, m *world.Machine, order []string, work time.Duration) *Taker {
	return &Taker{stage: s, m: m, order: order, work: work}
}

// Start begins with the first lease.
func (t *Taker) Start() { t.take() }

// Done reports whether it had all of them and has given them back.
func (t *Taker) Done() bool { return t.done }

// Held is how many it holds.
func (t *Taker) Held() (n int) {
	for _, h := range t.held {
		if h.Holding() {
			n++
		}
	}
	return n
}

func (t *Taker) take() {
	name := t.order[len(t.held)]
	h := NewHolder(t.stage, t.m, protocol.Config{
		Name: name, Prefix: fmt.Sprintf("%s-%s", t.m.Name, name), Times: t.stage.Times, Wait: true,
	})
	h.OnGranted = func(authority.Grant) {
		if len(t.held) < len(t.order) {
			t.take()
			return
		}
		t.stage.log(t.m, world.Event{What: "has-both", Name: t.order[0], Count: len(t.order)})
		t.m.Mono.After(t.work, t.giveBack)
	}
	t.held = append(t.held, h)
	h.Start()
}

func (t *Taker) giveBack() {
	t.done = true
	for i := len(t.held) - 1; i >= 0; i-- {
		t.held[i].Cancel(errors.New("done"))
		t.held[i].Release()
	}
}

// Crowd is many holders on one machine, each with a lease of its own and a claim
// in the table. They are healthy: they renew, come back when they lose their
// lease, and do nothing else.
type Crowd struct {
	stage   *Stage
	m       *world.Machine
	table   *Table
	n       int
	holders []*Holder
	losses  int
}

// NewCrowd makes a crowd that waits for Start.
func NewCrowd(s *Stage, m *world.Machine, t *Table, n int) *Crowd {
	return &Crowd{stage: s, m: m, table: t, n: n, holders: make([]*Holder, n)}
}

// Start begins to hold, spread over one renewal interval.
func (c *Crowd) Start() {
	for i := range c.n {
		c.m.Mono.After(c.stage.Times.Renew*time.Duration(i)/time.Duration(c.n), func() { c.hold(i, 1) })
	}
}

// Holding counts those that hold.
func (c *Crowd) Holding() (n int) {
	for _, h := range c.holders {
		if h != nil && h.Holding() {
			n++
		}
	}
	return n
}

// Losses counts how often one of them has lost its lease.
func (c *Crowd) Losses() int { return c.losses }

func (c *Crowd) hold(i, start int) {
	name := fmt.Sprintf("job-%05d", i)
	h := NewHolder(c.stage, c.m, protocol.Config{
		Name: name, Prefix: fmt.Sprintf("c%d-%d", i, start), Times: c.stage.Times, Wait: true,
	})
	h.quiet = true
	h.OnGranted = func(g authority.Grant) {
		_, _ = c.table.Table.Raise(c.stage.World.Now(), name, g.Grant)
	}
	h.OnEnded = func(protocol.End) {
		c.losses++
		c.m.Deliver(world.OrderSelf, func() { // not in the middle of the machine's effects
			h.Release()
			c.hold(i, start+1)
		})
	}
	c.holders[i] = h
	h.Start()
}
