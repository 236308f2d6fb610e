package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// CandidateConfig is one candidate's settings. Name is its own key, which nobody
// else uses: the election, a slash, and the candidate.
type CandidateConfig struct {
	Config
	Recheck time.Duration // look at the line this often although nothing woke it; zero: never
}

// Candidate stands in an election: it creates a key of its own and leads once no
// key stands before it. A Holder inside it keeps the key alive and says when its
// right has ended; the candidate adds the order. One Candidate is at most one
// term: Release says that its work has returned. It is not safe for concurrent
// use.
type Candidate struct {
	cfg   CandidateConfig
	h     *Holder
	now   Instant
	out   []Effect
	alarm alarm

	asked   int   // the open request of its own; 0: none
	next    timer // look at the line; none: when woken
	watched Watch
	again   bool // woken while a look was under way
	leads   fence.Grant
	heir    string // whom the term is passed to
	passes  int    // sent
}

// NewCandidate makes a machine that waits for Start.
func NewCandidate(cfg CandidateConfig) *Candidate {
	return &Candidate{cfg: cfg, h: NewHolder(cfg.Config)}
}

// Step is told the time and an event, and returns what is to be done, in order.
// The effects are the Holder's, and Watch and Lead.
func (c *Candidate) Step(now Instant, ev Event) []Effect {
	c.now = now
	switch ev := ev.(type) {
	case Answer:
		if ev.Op < OpList {
			c.hold(ev)
			break
		}
		// The holder first: an answer taken from the queue after the stop time
		// makes no leader.
		c.hold(Tick{})
		if ev.Try == c.asked && c.asked != 0 {
			c.asked = 0
			c.answered(ev)
		}
	case Woken:
		c.hold(Tick{})
		c.woken()
	case Pass:
		c.hold(Tick{})
		c.pass(ev.Key)
	case Tick:
		c.alarm.rings()
		c.hold(ev)
	default:
		c.hold(ev)
	}
	if c.next.due(c.now) && c.asked == 0 {
		c.due()
	}
	c.arm()
	out := c.out
	c.out = nil
	return out
}

func (c *Candidate) emit(e Effect) { c.out = append(c.out, e) }

// hold hands an event to the holder, and looks at what it does.
func (c *Candidate) hold(ev Event) {
	for _, e := range c.h.Step(c.now, ev) {
		switch e.(type) {
		case Arm: // see arm
			continue
		case Granted:
			c.next.set(c.now)
		case Ended:
			c.leads = fence.Grant{}
			if c.heir == "" {
				c.next.off()
			}
		case Settled, Quit:
			c.next.off()
		}
		c.emit(e)
	}
}

func (c *Candidate) arm() {
	var at timer
	if c.asked == 0 {
		at = c.next
	}
	if c.h.armed != 0 {
		at.sooner(c.h.armed)
	}
	if e, news := c.alarm.want(at); news {
		c.emit(e)
	}
}

// due looks at the line, or passes the term on.
func (c *Candidate) due() {
	c.next.off()
	switch {
	case c.heir != "":
		c.sendPass()
	case c.h.Holding():
		c.send(Send{Op: OpList})
	}
}

// send sends a request of the candidate's own. There is one at a time.
func (c *Candidate) send(s Send) {
	c.h.n++
	c.asked = c.h.n
	s.Try, s.Deadline = c.asked, c.now.Add(c.cfg.Times.Timeout)
	c.emit(s)
}

// woken looks at the line again: that a key is gone does not yet say who leads.
func (c *Candidate) woken() {
	if !c.h.Holding() || !c.leads.IsZero() || c.heir != "" {
		return
	}
	c.watched = Watch{}
	c.next.set(c.now)
	c.again = c.asked != 0
}

func (c *Candidate) answered(a Answer) {
	if a.Op == OpPass {
		c.passed(a.Err)
		return
	}
	if !c.h.Holding() || !c.leads.IsZero() || c.heir != "" {
		return
	}
	if c.again { // what was seen is older than what woke it
		c.again = false
		c.next.set(c.now)
		return
	}
	switch {
	case a.Err != nil:
		c.emit(Trouble{a.Op, a.Err})
		c.next.set(c.now.Add(c.h.retryDelay()))
	case a.Op == OpNumber:
		c.lead(a.Grant.Grant)
	case a.Op == OpList:
		c.look(a.List)
	}
}

// look finds the candidate's place in the line.
func (c *Candidate) look(l Listed) {
	me := -1
	for i, p := range l.Keys {
		switch {
		case p.Grant == c.h.grant.Grant:
			me = i
		case p.Grant.Token == c.h.grant.Token:
			// Two keys of one entry of the log: each would find itself first.
			c.doubt(fmt.Errorf("%q has the same token %d as this candidate: neither of them may lead", p.Key, p.Grant.Token))
			return
		}
	}
	switch {
	case me < 0:
		c.doubt(fmt.Errorf("%q is not in the line any more", c.cfg.Name))
	case me > 0:
		c.watch(l, me)
	case l.Keys[0].Token < l.Floor && !c.cfg.Without.Has(RuleFloor):
		// Somebody was let in before it with a higher token, and the resource
		// has seen that one.
		c.send(Send{Op: OpNumber, Grant: c.h.grant})
	default:
		c.lead(fence.Grant{Token: l.Keys[0].Token, Nonce: c.h.grant.Nonce})
	}
}

// doubt waits until the renewal or the next look says more.
func (c *Candidate) doubt(err error) {
	c.emit(Trouble{OpList, err})
	c.next.set(c.now.Add(c.h.retryDelay()))
}

// watch waits for the key before its own: a key that goes then wakes one
// candidate, not all of them.
func (c *Candidate) watch(l Listed, me int) {
	before := l.Keys[me-1]
	if c.cfg.Without.Has(RulePredecessor) {
		before = l.Keys[0]
	}
	if w := (Watch{before.Key, before.Grant.Token, l.Rev}); w.Key != c.watched.Key || w.Token != c.watched.Token {
		c.watched = w
		c.emit(w)
	}
	if c.cfg.Recheck > 0 {
		c.next.set(c.now.Add(c.cfg.Recheck))
	}
}

func (c *Candidate) lead(g fence.Grant) {
	c.leads = g
	c.next.off()
	c.emit(Lead{g, c.h.Stop()})
}

// Leading is the grant that the candidate leads with; zero while it does not.
func (c *Candidate) Leading() fence.Grant { return c.leads }

// Holder is the machine that keeps the candidate's key.
func (c *Candidate) Holder() *Holder { return c.h }

// pass ends the term, whose work has returned, in favour of a named heir. The
// heir gets a grant of its own: this one is never handed on.
func (c *Candidate) pass(heir string) {
	if c.leads.IsZero() || !c.h.Holding() {
		c.hold(Release{})
		return
	}
	c.heir = heir
	c.h.end(End{Reason: Released})
	c.hold(Tick{}) // hands over what end has emitted
	c.leads = fence.Grant{}
	c.next.set(c.now)
	c.asked = 0
}

func (c *Candidate) sendPass() {
	if c.h.phase != ended { // the authority has let go by itself
		return
	}
	c.passes++
	c.send(Send{Op: OpPass, Grant: c.h.grant, Key: c.heir})
}

func (c *Candidate) passed(err error) {
	switch {
	case c.h.phase != ended:
	case err == nil, c.passes > 1 && errors.Is(err, authority.ErrNotHeld):
		c.h.settle(nil)
		c.hold(Tick{})
	case definite(err): // the heir has gone: the line decides
		c.heir = ""
		c.hold(Release{})
	default:
		c.emit(Trouble{OpPass, err})
		c.next.set(c.now.Add(c.h.retryDelay()))
	}
}
