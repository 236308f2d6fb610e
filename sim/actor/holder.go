package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Holder drives one protocol.Holder on a machine: the sim's counterpart of the
// runtime in package stint.
type Holder struct {
	stage    *Stage
	m        *world.Machine
	clock    *world.Clock
	lock     Lock
	election string
	cfg      protocol.Config
	step1    func(authority.Instant, protocol.Event) []protocol.Effect
	h        *protocol.Holder // the one, or the one inside a candidate

	alarm   *world.Alarm
	open    []*call
	beatAt  authority.Instant
	beats   bool
	grant   authority.Grant
	started bool
	quit    bool
	waits   bool

	// What the work hears. All may be nil.
	OnGranted func(authority.Grant)
	OnEnded   func(protocol.End)
	OnStarved func()
	OnSettled func(error)
	OnQuit    func()
	OnEffect  func(protocol.Effect) // what is not a holder's
	OnSend    func(protocol.Op)

	quiet bool // its lines are details

	// lose makes the answer of the next request of a kind get lost.
	lose map[protocol.Op]int
}

// call is a request under way.
type call struct {
	send     protocol.Send
	deadline *world.Alarm
	closed   bool
}

// NewHolder makes a holder that waits for Start.
func NewHolder(s *Stage, m *world.Machine, cfg protocol.Config) *Holder {
	h := &Holder{stage: s, m: m, lock: s.Lock, clock: m.Mono, lose: map[protocol.Op]int{}}
	if s.Without.Has(protocol.RuleMonotonic) {
		h.clock = m.Wall
	}
	cfg.Without = s.Without
	h.cfg, h.h = cfg, protocol.NewHolder(cfg)
	h.step1 = h.h.Step
	return h
}

// newCandidate drives a candidate by way of the holder inside it.
func newCandidate(s *Stage, m *world.Machine, election string, cfg protocol.CandidateConfig) (*Holder, *protocol.Candidate) {
	h := NewHolder(s, m, cfg.Config)
	cfg.Config = h.cfg
	c := protocol.NewCandidate(cfg)
	h.election, h.step1, h.h = election, c.Step, c.Holder()
	return h, c
}

// Start begins to acquire.
func (h *Holder) Start() {
	h.started = true
	h.step(protocol.Start{})
}

// Cancel ends the waiting or the lease.
func (h *Holder) Cancel(cause error) { h.step(protocol.Cancel{Cause: cause}) }

// Release gives the lease back.
func (h *Holder) Release() { h.step(protocol.Release{}) }

// Beat is a sign of life of the work.
func (h *Holder) Beat() {
	h.beatAt, h.beats = h.clock.Now(), true
	if h.h.Holding() {
		h.step(protocol.Beat{At: h.beatAt})
	}
}

// LoseAnswer loses the answer of the next request of a kind.
func (h *Holder) LoseAnswer(op protocol.Op) { h.lose[op]++ }

// Holding is the check before every action: the clock against the stop time.
func (h *Holder) Holding() bool { return h.h.Holding() && h.clock.Now() < h.h.Stop() }

// Over reports whether nothing is left to do.
func (h *Holder) Over() bool { return h.quit }

// Stop is the stop time in true time, as far as the clock keeps its rate.
func (h *Holder) Stop() authority.Instant { return h.h.Stop() }

// Grant is the last one.
func (h *Holder) Grant() authority.Grant { return h.grant }

func (h *Holder) step(e protocol.Event) {
	if h.quit {
		return
	}
	now := h.clock.Now()
	if _, ok := e.(protocol.Tick); ok && h.beats {
		h.perform(h.step1(now, protocol.Beat{At: h.beatAt}))
	}
	h.perform(h.step1(now, e))
}

func (h *Holder) perform(effects []protocol.Effect) {
	for _, effect := range effects {
		switch effect := effect.(type) {
		case protocol.Send:
			h.send(effect)
		case protocol.Recall:
			h.recall(effect.Op)
		case protocol.Arm:
			h.arm(effect.At)
		default:
			h.tell(effect)
		}
	}
}

// arm asks for a tick. A machine whose clock is at zero would not tell "never"
// from "now": the worlds begin above it.
func (h *Holder) arm(at authority.Instant) {
	h.alarm.Stop()
	h.alarm = nil
	if at != 0 {
		h.alarm = h.clock.Alarm(at, world.OrderTimer, func() { h.step(protocol.Tick{}) })
	}
}

// send performs a request at the end of the turn, unless it was recalled in it.
// Whatever comes first, its answer or its deadline, is the one answer.
func (h *Holder) send(s protocol.Send) {
	c := &call{send: s}
	h.open = append(h.open, c)
	if s.Deadline != 0 {
		c.deadline = h.clock.Alarm(s.Deadline, world.OrderMessage, func() { h.answer(c, failed(s, context.DeadlineExceeded)) })
	}
	h.m.Deliver(world.OrderLast, func() {
		if !c.closed {
			h.request(c)
		}
	})
}

func failed(s protocol.Send, err error) protocol.Answer {
	if s.Op == protocol.OpWait {
		err = nil // see authority.Queuer
	}
	return protocol.Answer{Op: s.Op, Try: s.Try, Err: err}
}

func (h *Holder) request(c *call) {
	s := c.send
	if h.OnSend != nil {
		h.OnSend(s.Op)
	}
	r := Request{
		Op:    s.Op,
		Ask:   authority.Request{Name: h.cfg.Name, Length: h.cfg.Times.Length, Nonce: s.Nonce, Holder: h.m.Name},
		Grant: s.Grant, Prefix: h.election, Key: s.Key,
	}
	r.Grant.Name = h.cfg.Name
	if h.cfg.Queuer {
		r.Ask.Waiter = h.cfg.Prefix
	}
	lost := h.lose[s.Op] > 0
	if lost {
		h.lose[s.Op]--
	}
	h.lock.Call(h.m, r, func(a protocol.Answer) {
		if lost {
			h.log(world.Event{What: "answer-lost", Name: h.cfg.Name, Why: s.Op.String()})
			return
		}
		a.Op, a.Try = s.Op, s.Try
		h.answer(c, a)
	})
}

func (h *Holder) answer(c *call, a protocol.Answer) {
	if c.closed {
		return
	}
	h.close(c)
	h.step(a)
}

func (h *Holder) close(c *call) {
	c.closed = true
	c.deadline.Stop()
	for i, o := range h.open {
		if o == c {
			h.open = append(h.open[:i], h.open[i+1:]...)
			return
		}
	}
}

func (h *Holder) recall(op protocol.Op) {
	for _, c := range append([]*call(nil), h.open...) {
		if c.send.Op == op {
			h.close(c)
			h.m.Deliver(world.OrderMessage, func() { h.step(failed(c.send, context.Canceled)) })
		}
	}
}

func (h *Holder) log(e world.Event) {
	e.Detail = e.Detail || h.quiet
	h.stage.log(h.m, e)
}

// tell logs what the machine says, and passes it on to the work.
func (h *Holder) tell(effect protocol.Effect) {
	name := h.cfg.Name
	switch e := effect.(type) {
	case protocol.Granted:
		h.grant = e.Grant
		h.log(world.Event{What: "granted", Name: name, Token: uint64(e.Grant.Token), Stop: h.stage.trueTime(h.clock, e.Stop)})
		h.call(h.OnGranted, e.Grant)
	case protocol.Kept:
		h.log(world.Event{What: "kept", Name: name, Token: uint64(h.grant.Token), Stop: h.stage.trueTime(h.clock, e.Stop)})
	case protocol.Waiting:
		h.log(world.Event{What: "waits", Name: name, Detail: h.waits, Token: uint64(e.Held.State.Grant.Token), Why: "held"})
		h.waits = true
	case protocol.Trouble:
		h.log(world.Event{What: "trouble", Name: name, Token: uint64(h.grant.Token), Why: e.Op.String() + ": " + short(e.Err)})
	case protocol.Starved:
		h.log(world.Event{What: "starved", Name: name, Token: uint64(h.grant.Token), Why: "the work gives no sign of life: not renewed"})
		if h.OnStarved != nil {
			h.OnStarved()
		}
	case protocol.Ended:
		h.waits = false
		h.log(world.Event{What: "ended", Name: name, Token: uint64(h.grant.Token), Why: e.End.Reason.String()})
		if h.OnEnded != nil {
			h.OnEnded(e.End)
		}
	case protocol.Settled:
		h.settled(e.Err)
	case protocol.Quit:
		h.quit = true
		h.alarm.Stop()
		if h.OnQuit != nil {
			h.OnQuit()
		}
	default:
		if h.OnEffect != nil {
			h.OnEffect(effect)
		}
	}
}

func (h *Holder) call(f func(authority.Grant), g authority.Grant) {
	if f != nil {
		f(g)
	}
}

func (h *Holder) settled(err error) {
	e := world.Event{What: "released", Name: h.cfg.Name, Token: uint64(h.grant.Token)}
	if err != nil {
		e.What, e.Why = "release-refused", short(err)
	}
	h.log(e)
	if h.OnSettled != nil {
		h.OnSettled(err)
	}
}

// short is an error in a few words: transcripts are read line by line.
func short(err error) string {
	var gone *authority.NotHeldError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "recalled"
	case errors.As(err, &gone) && gone.State.Grant.Token > gone.Grant.Token:
		return fmt.Sprintf("not held any more, %d is", gone.State.Grant.Token)
	case errors.Is(err, authority.ErrNotHeld):
		return "not held any more"
	}
	return err.Error()
}
