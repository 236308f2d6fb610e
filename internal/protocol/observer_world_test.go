package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

// shelf is a register in the world: it compares and swaps, and keeps no time.
type shelf struct {
	w       *world
	record  Record
	version string
	n       int
	top     fence.Token
	grants  int
}

func (s *shelf) swap(e Swap, until Instant) Swapped {
	if !e.Any && e.If != s.version {
		return Swapped{Try: e.Try, Err: fmt.Errorf("swap: %w", ErrConflict)}
	}
	s.n++
	s.version, s.record = fmt.Sprintf("v%d", s.n), e.Record
	s.record.Until = until
	if e.Delete {
		s.version, s.record = "", Record{}
	}
	s.w.say("register: %v now %v", e, s.version)
	return Swapped{Try: e.Try, Version: s.version}
}

// claimant tries to hold the record again and again.
type claimant struct {
	*body
	s       *shelf
	o       *Observer
	n       int
	ahead   time.Duration // of its wall clock
	margin  time.Duration
	without Rules
}

// forClaimant is an event for one of a claimant's machines, which may be over.
type forClaimant struct {
	o *Observer
	Event
}

func (c *claimant) hearFor(now Instant, ev Event) {
	if f, ok := ev.(forClaimant); ok {
		if f.o != c.o {
			return
		}
		ev = f.Event
	}
	c.step(now, ev)
}

func (c *claimant) wall() Instant { return Instant(c.w.now + c.ahead) }

func (c *claimant) begin() {
	c.n++
	c.o = NewObserver(ObserverConfig{Holder: c.name, ClaimMargin: c.margin, Config: Config{
		Name: "job", Prefix: fmt.Sprintf("%s%d", c.name, c.n), Times: Times{}.WithDefaults(), Wait: true, Without: c.without,
	}})
	o := c.o
	c.w.after(c.w.between(1, 3000), func() { c.post(forClaimant{o, Start{}}) })
}

func (c *claimant) step(now Instant, ev Event) {
	o := c.o
	for _, e := range o.Step(now, ev) {
		switch e := e.(type) {
		case Load:
			c.call(e.Deadline, func(reply func(Event)) {
				l := Loaded{Try: e.Try, Record: c.s.record, Version: c.s.version, Wall: c.wall()}
				reply(forClaimant{o, l})
			}, forClaimant{o, Loaded{Try: e.Try, Err: errLost}})
		case Swap:
			until := c.wall().Add(e.Record.Length)
			c.call(e.Deadline, func(reply func(Event)) {
				reply(forClaimant{o, c.s.swap(e, until)})
			}, forClaimant{o, Swapped{Try: e.Try, Err: errLost}})
		case Arm:
			c.arm(e.At)
		case Granted:
			c.granted(o, e)
		case Ended:
			c.w.say("%s: %v", c.name, e)
			c.w.after(c.w.between(1, 3000), func() { c.post(forClaimant{o, Release{}}) })
		case Quit:
			c.begin()
		}
	}
}

func (c *claimant) granted(o *Observer, g Granted) {
	c.w.say("%s holds %v until %v of its clock", c.name, g.Grant.Grant, g.Stop)
	if g.Grant.Token <= c.s.top {
		c.w.broken("token %d was given out after %d", g.Grant.Token, c.s.top)
	}
	c.s.top = g.Grant.Token
	c.s.grants++
	c.w.after(c.w.between(500, 30000), func() { c.post(forClaimant{o, Release{}}) })
}

func (c *claimant) check() {
	if !c.o.Holding() || c.clock() >= c.o.Stop() {
		return
	}
	if c.s.record.Holder == "" || c.s.record.Grant != c.o.grant.Grant {
		c.w.broken("%s believes that it holds %v until %v, and its clock says %v; the record is %+v",
			c.name, c.o.grant.Grant, c.o.Stop(), c.clock(), c.s.record)
	}
}

func registerWorld(seed uint64, without Rules) *world {
	w := newWorld(seed)
	s := &shelf{w: w}
	var all []*claimant
	for _, name := range []string{"a", "b", "c"} {
		c := &claimant{body: w.body(name), s: s, without: without, ahead: w.between(-3000, 3000)}
		c.margin = time.Duration(w.r.IntN(2)) * 4 * sec
		c.hear = c.hearFor
		c.naps(150 * sec)
		all = append(all, c)
		c.begin()
	}
	w.verify = func() {
		for _, c := range all {
			c.check()
		}
	}
	w.run(150 * sec)
	calm := s.grants
	w.run(300 * sec)
	if w.wrong == "" && s.grants < calm+3 {
		w.broken("%d grants since the faults ended", s.grants-calm)
	}
	return w
}

func TestWhoBelievesThatItHoldsIsInTheRecord(t *testing.T) {
	if seed, w := firstBroken(registerWorld, 0, *worlds); w != nil {
		t.Fatalf("seed %d: %s", seed, w.story())
	}
	for _, rule := range []Rules{RuleClockFree, RuleKeepToken, RuleSentAt, RuleConditional} {
		seed, w := firstBroken(registerWorld, rule, 5000)
		if w == nil {
			t.Errorf("without %v no world breaks", rule)
			continue
		}
		t.Logf("without %v, seed %d: %s", rule, seed, w.wrong)
	}
}
