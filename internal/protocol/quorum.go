package protocol

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// QuorumRules is a set of what the documentation of Redlock asks of its client.
type QuorumRules uint8

// The rules of a quorum.
const (
	QuorumElapsed  QuorumRules = 1 << iota // the time that acquiring took is not held
	QuorumGiveBack                         // who has no majority gives back everywhere, even where it seemed to fail
	QuorumMajority                         // of all masters, not of those that have answered
)

// QuorumConfig is one attempt to hold one name on several masters.
type QuorumConfig struct {
	Name, Value string // the value is of this attempt alone
	Masters     int    // in all, from 1
	Reach       []int  // those that are asked; all, if it is empty
	Length      time.Duration
	Timeout     time.Duration // how long all of them are waited for
	Without     QuorumRules   // rules that a simulator leaves out
}

// Check returns the rule that the settings break.
func (c QuorumConfig) Check() error {
	switch {
	case c.Name == "" || c.Value == "" || c.Masters < 1:
		return errors.New("a quorum needs a name, a value of its own, and masters")
	case c.Timeout <= 0 || c.Timeout >= c.Length:
		return fmt.Errorf("time-out %v: it has to be above zero and below the length, %v", c.Timeout, c.Length)
	}
	for _, m := range c.Reach {
		if m < 1 || m > c.Masters {
			return fmt.Errorf("there is no master %d of %d", m, c.Masters)
		}
	}
	return nil
}

// Quorum is a client of Redlock: it takes a key on a majority of masters that know
// nothing of each other, and each of which lets go by its own wall clock.
//
// It is not safe, and is here to be shown. A clock that is set on one master, or a
// master that forgets in a restart, gives two clients a majority each; and there is
// no token in it by which a store could tell them apart. No driver of users runs
// it. It is not safe for concurrent use either.
type Quorum struct {
	cfg   QuorumConfig
	phase quorumPhase
	now   Instant
	out   []Effect
	alarm alarm
	start Instant
	left  []int // have not answered
	got   []int
	until Instant // believes that it holds
}

type quorumPhase uint8

const (
	quorumFresh quorumPhase = iota
	quorumAsks
	quorumHolds
	quorumOver
)

// NewQuorum makes a machine that waits for Start.
func NewQuorum(cfg QuorumConfig) *Quorum {
	if len(cfg.Reach) == 0 {
		for i := range cfg.Masters {
			cfg.Reach = append(cfg.Reach, i+1)
		}
	}
	return &Quorum{cfg: cfg}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (q *Quorum) Step(now Instant, ev Event) []Effect {
	q.now = now
	switch ev := ev.(type) {
	case Start:
		q.begin()
	case Lent:
		q.lent(ev)
	case Release:
		if q.phase != quorumOver {
			q.phase = quorumOver
			q.giveBack()
		}
	case Tick:
		q.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	var at timer
	if q.phase == quorumAsks {
		if at.set(q.start.Add(q.cfg.Timeout)); at.due(now) {
			q.count()
			at.off()
		}
	}
	if e, news := q.alarm.want(at); news {
		q.emit(e)
	}
	out := q.out
	q.out = nil
	return out
}

func (q *Quorum) emit(e Effect) { q.out = append(q.out, e) }

// Holding says whether it believes that it holds.
func (q *Quorum) Holding(now Instant) bool { return q.phase == quorumHolds && now < q.until }

// begin reads the time, and asks all masters at once.
func (q *Quorum) begin() {
	if q.phase != quorumFresh {
		return
	}
	q.phase, q.start = quorumAsks, q.now
	q.left = slices.Clone(q.cfg.Reach)
	for _, m := range q.cfg.Reach {
		q.emit(Borrow{Master: m, Name: q.cfg.Name, Value: q.cfg.Value, Length: q.cfg.Length})
	}
}

func (q *Quorum) lent(ev Lent) {
	i := slices.Index(q.left, ev.Master)
	if q.phase != quorumAsks || i < 0 {
		return // it has answered before
	}
	q.left = slices.Delete(q.left, i, i+1)
	if ev.Yes {
		q.got = append(q.got, ev.Master)
		slices.Sort(q.got)
	}
	if len(q.left) == 0 {
		q.count()
	}
}

// count is when all have answered, or the time for it is over: held with a majority
// of all masters, in less time than the length.
func (q *Quorum) count() {
	of := q.cfg.Masters
	if q.cfg.Without&QuorumMajority != 0 {
		of = len(q.cfg.Reach) - len(q.left)
	}
	q.until = q.start.Add(q.cfg.Length)
	if q.cfg.Without&QuorumElapsed != 0 {
		q.until = q.now.Add(q.cfg.Length)
	}
	c := Counted{Got: slices.Clone(q.got)}
	if len(q.got) > of/2 && q.now < q.until {
		q.phase = quorumHolds
		c.Held, c.Validity = true, q.until.Sub(q.now)
	} else {
		q.phase = quorumOver
		if q.cfg.Without&QuorumGiveBack == 0 {
			q.giveBack()
		}
	}
	q.emit(c)
}

func (q *Quorum) giveBack() {
	for i := range q.cfg.Masters {
		q.emit(Return{Master: i + 1, Name: q.cfg.Name, Value: q.cfg.Value})
	}
}

// Lent answers Borrow. A connection that was refused is a no; silence is none.
type Lent struct {
	Master int
	Yes    bool
}

func (Lent) event() {}

// Borrow asks a master for a key, if it has none of this name (SET NX PX).
type Borrow struct {
	Master      int
	Name, Value string
	Length      time.Duration
}

// Return deletes the key on a master, if it still has this value. Nothing answers.
type Return struct {
	Master      int
	Name, Value string
}

// Counted is the end of asking. It comes once.
type Counted struct {
	Held     bool
	Got      []int         // masters that have said yes
	Validity time.Duration // from now on
}

func (Borrow) effect()  {}
func (Return) effect()  {}
func (Counted) effect() {}

func (e Borrow) String() string {
	return fmt.Sprintf("borrow %q from %d as %s for %v", e.Name, e.Master, e.Value, e.Length)
}
func (e Return) String() string {
	return fmt.Sprintf("return %q to %d as %s", e.Name, e.Master, e.Value)
}
func (e Counted) String() string {
	if !e.Held {
		return fmt.Sprintf("not held: only %v", e.Got)
	}
	return fmt.Sprintf("held by %v for %v", e.Got, e.Validity)
}
