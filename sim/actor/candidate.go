package actor

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Candidate drives a protocol.Candidate: it stands in the line of an election.
type Candidate struct {
	stage    *Stage
	m        *world.Machine
	election string
	key      string
	h        *Holder
	c        *protocol.Candidate
	n        int
	watches  int
	Quiet    bool // one of a crowd: its own lines are details

	// Loops makes it begin again after each term, as Lead does. Slow is how long
	// the work takes to return after its term has ended, and Early does not wait
	// for that.
	Loops, Early bool
	Slow         time.Duration
	led          map[*Holder]bool
	running      int // terms whose work has not returned
	// Most is the most of them at once.
	Most int

	// Wakes and Reads count how often it was woken, and looked at the line.
	Wakes, Reads int
	// OnLead is called when it leads.
	OnLead func(fence.Grant)
}

// NewCandidate makes a candidate that waits for Start.
func NewCandidate(s *Stage, m *world.Machine, election, key string) *Candidate {
	return &Candidate{stage: s, m: m, election: election, key: key, led: map[*Holder]bool{}}
}

// Start begins one term's candidacy.
func (c *Candidate) Start() {
	c.n++
	name := c.election + "/" + c.key
	c.h, c.c = newCandidate(c.stage, c.m, c.election, protocol.CandidateConfig{Config: protocol.Config{
		Name: name, Prefix: fmt.Sprintf("%s%d", c.key, c.n), Times: c.stage.Times, Wait: true,
	}})
	c.h.quiet = c.Quiet
	c.h.OnEffect = c.effect
	if c.Loops {
		c.loop(c.h)
	}
	c.h.OnSend = func(op protocol.Op) {
		if op == protocol.OpList {
			c.Reads++
		}
	}
	c.h.Start()
}

func (c *Candidate) effect(effect protocol.Effect) {
	switch e := effect.(type) {
	case protocol.Watch:
		c.watch(e)
	case protocol.Lead:
		c.stage.log(c.m, world.Event{What: "leads", Name: c.election, Token: uint64(e.Grant.Token), Epoch: uint64(e.Grant.Token), Stop: c.stage.trueTime(c.h.clock, e.Stop)})
		c.led[c.h] = true
		c.running++
		c.Most = max(c.Most, c.running)
		if c.OnLead != nil {
			c.OnLead(e.Grant)
		}
	}
}

// loop is Lead's: the end of a term ends its context, the work returns when it
// sees that, and only then does the next candidacy begin.
func (c *Candidate) loop(h *Holder) {
	again := func() { c.m.Deliver(world.OrderSelf, c.Start) }
	h.OnEnded = func(protocol.End) {
		if c.Early {
			again()
		}
		c.m.Mono.After(c.Slow, func() {
			if c.led[h] {
				c.running--
				c.stage.log(c.m, world.Event{What: "work-returns", Name: c.election, Epoch: uint64(h.grant.Token)})
			}
			h.Release()
		})
	}
	h.OnSettled = func(error) {
		if !c.Early {
			again()
		}
	}
}

func (c *Candidate) watch(e protocol.Watch) {
	c.stage.log(c.m, world.Event{What: "watches", Name: e.Key, Token: uint64(e.Token), Detail: c.Quiet})
	w, ok := c.stage.Lock.(Watcher)
	if !ok {
		panic("actor: this lock service knows no watches")
	}
	c.watches++
	mine := c.watches
	w.Watch(c.m, e, func() {
		if c.watches != mine || c.h.Over() {
			return
		}
		c.Wakes++
		c.stage.log(c.m, world.Event{What: "wakes-up", Name: e.Key, Detail: c.Quiet, Why: "its key is gone"})
		c.h.step(protocol.Woken{})
	})
}

// Leading is the grant it leads with; zero while it does not.
func (c *Candidate) Leading() fence.Grant {
	if c.c == nil {
		return fence.Grant{}
	}
	return c.c.Leading()
}

// Resign ends the candidacy or the term: the work has returned.
func (c *Candidate) Resign() {
	if c.h == nil { // it has not started
		return
	}
	c.h.Cancel(errors.New("resigns"))
	c.h.Release()
}

// Pass ends the term in favour of an heir.
func (c *Candidate) Pass(heir string) {
	if c.h != nil {
		c.h.step(protocol.Pass{Key: c.election + "/" + heir})
	}
}
