package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// SuccessorConfig is the settings of a handover between two single writers.
type SuccessorConfig struct {
	Nonce   string        // of the flip; unique in the world
	Longest time.Duration // the longest lease that any old writer stored
	Margin  time.Duration // the old writers', at least
	Wait    time.Duration // from the answer to the flip to the first write; zero: LeastWait
	Timeout time.Duration // of one request
	Without Rules         // handover-wait; margin: the old writers had none
}

// LeastWait is the shortest safe wait: an old writer that refreshed its right at
// the moment of the flip has stopped by then, with both clocks at their worst
// rate.
func (c SuccessorConfig) LeastWait() time.Duration {
	right := c.Longest - c.Margin
	w := right + 2*right/(RateError-1) + StopLatency // (1+e)/(1-e) = 1 + 2e/(1-e)
	return w + StopLatency/RateError
}

// Check returns the rule that the settings break.
func (c SuccessorConfig) Check() error {
	switch {
	case c.Longest <= 0 || c.Margin < 0 || c.Margin >= c.Longest || c.Timeout <= 0:
		return errors.New("a handover needs the old writers' lease, a margin below it, and a time-out")
	case c.Wait != 0 && c.Wait < c.LeastWait():
		return fmt.Errorf("wait %v: at least %v is needed after a lease of %v with margin %v", c.Wait, c.LeastWait(), c.Longest, c.Margin)
	}
	return nil
}

// successorPhase is what a successor is about.
type successorPhase uint8

const (
	idle successorPhase = iota
	flipping
	waiting
	raising
	open
	closed
)

// Successor takes over as the single writer: it flips the flag that says who
// writes, waits until the old writer must have stopped, raises the epoch in the
// store that it will write, and only then writes. A successor that crashed starts
// again with a new machine, and so with a new wait. It is not safe for concurrent
// use.
type Successor struct {
	cfg   SuccessorConfig
	phase successorPhase
	now   Instant
	out   []Effect
	alarm alarm

	n     int
	grant fence.Grant
	next  timer
}

// NewSuccessor makes a machine that waits for Start.
func NewSuccessor(cfg SuccessorConfig) *Successor {
	if cfg.Without.Has(RuleMargin) {
		cfg.Margin = 0
	}
	if cfg.Wait == 0 {
		cfg.Wait = cfg.LeastWait()
	}
	if cfg.Without.Has(RuleHandoverWait) {
		cfg.Wait = 0
	}
	return &Successor{cfg: cfg}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (s *Successor) Step(now Instant, ev Event) []Effect {
	s.now = now
	switch ev := ev.(type) {
	case Start:
		if s.phase == idle {
			s.phase = flipping
			s.next.set(now)
		}
	case Flipped:
		s.flipped(ev)
	case Raised:
		s.raised(ev)
	case Cancel:
		if s.phase != closed {
			s.close(End{Reason: Cancelled, Err: ev.Cause})
		}
	case Tick:
		s.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	s.due()
	s.arm()
	out := s.out
	s.out = nil
	return out
}

func (s *Successor) emit(e Effect) { s.out = append(s.out, e) }

func (s *Successor) arm() {
	if e, news := s.alarm.want(s.next); news {
		s.emit(e)
	}
}

func (s *Successor) due() {
	if !s.next.due(s.now) {
		return
	}
	switch s.phase {
	case flipping:
		s.n++
		s.next.set(s.now.Add(s.cfg.Timeout))
		s.emit(Flip{Try: s.n, Nonce: s.cfg.Nonce, Deadline: s.next.at})
	case waiting:
		s.phase = raising
		fallthrough
	case raising:
		s.n++
		s.next.set(s.now.Add(s.cfg.Timeout))
		s.emit(Raise{Try: s.n, Grant: s.grant, Deadline: s.next.at})
	}
}

// flipped counts the wait from the answer: until it came, the old writer may
// still have read the old flag and refreshed its right.
func (s *Successor) flipped(ev Flipped) {
	if s.phase != flipping {
		return
	}
	if ev.Err != nil {
		s.next.sooner(s.now.Add(s.cfg.Timeout / 3))
		return
	}
	s.grant = ev.Grant
	s.phase = waiting
	s.next.set(s.now.Add(s.cfg.Wait))
}

// raised opens the store for writes: before the raise was answered, a write of
// the old epoch could still be let in beside the new ones.
func (s *Successor) raised(ev Raised) {
	switch {
	case s.phase != raising:
	case ev.Err == nil:
		s.phase = open
		s.next.off()
		s.emit(Open{s.grant})
	case errors.Is(ev.Err, fence.ErrStale), errors.Is(ev.Err, fence.ErrRepeated):
		s.close(End{Reason: TakenOver, Err: ev.Err})
	default:
		s.next.sooner(s.now.Add(s.cfg.Timeout / 3))
	}
}

func (s *Successor) close(e End) {
	s.phase = closed
	s.next.off()
	s.emit(Ended{e})
	s.emit(Quit{})
}

// Flipped answers Flip. Of several tries, any may be answered.
type Flipped struct {
	Try   int
	Grant fence.Grant
	Err   error
}

// Raised answers Raise.
type Raised struct {
	Try int
	Err error
}

func (Flipped) event() {}
func (Raised) event()  {}

// Flip makes this writer the one that the flag names, under a new and higher
// epoch. Repeating it with the same nonce changes nothing and has the same
// answer.
type Flip struct {
	Try      int
	Nonce    string
	Deadline Instant
}

// Raise raises the fence of the store to the new epoch.
type Raise struct {
	Try      int
	Grant    fence.Grant
	Deadline Instant
}

// Open says that the successor may write, with this grant.
type Open struct{ Grant fence.Grant }

func (Flip) effect()  {}
func (Raise) effect() {}
func (Open) effect()  {}

func (e Flip) String() string {
	return fmt.Sprintf("flip #%d nonce %s until %v", e.Try, e.Nonce, e.Deadline)
}
func (e Raise) String() string {
	return fmt.Sprintf("raise #%d to %v until %v", e.Try, e.Grant, e.Deadline)
}
func (e Open) String() string { return fmt.Sprintf("open for %v", e.Grant) }
