package protocol

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/fence"
)

// electorate is an election at a cluster, whose watches lose some messages.
type electorate struct {
	*cluster
	seats []*seat
	top   fence.Token // the highest epoch that has led
	terms int
}

// seat is a place for one candidate after another.
type seat struct {
	*body
	e       *electorate
	c       *Candidate
	n       int
	without Rules
	watch   Watch
}

// forSeat is an event for one of a seat's candidates, which may be over.
type forSeat struct {
	c *Candidate
	Event
}

func (s *seat) hearFor(now Instant, ev Event) {
	if f, ok := ev.(forSeat); ok {
		if f.c != s.c {
			return
		}
		ev = f.Event
	}
	s.step(now, ev)
}

func (s *seat) key() string { return fmt.Sprintf("e/%s%d", s.name, s.n) }

func (s *seat) begin() {
	s.n++
	s.c = NewCandidate(CandidateConfig{Recheck: 4 * sec, Config: Config{
		Name: s.key(), Prefix: fmt.Sprintf("%s%d", s.name, s.n), Times: Times{}.WithDefaults(), Wait: true, Without: s.without,
	}})
	c := s.c
	s.watch = Watch{}
	s.w.after(s.w.between(1, 3000), func() { s.post(forSeat{c, Start{}}) })
}

func (s *seat) step(now Instant, ev Event) {
	c := s.c
	for _, e := range c.Step(now, ev) {
		switch e := e.(type) {
		case Send:
			s.send(c, e)
		case Arm:
			s.arm(e.At)
		case Watch:
			s.watch = e
		case Lead:
			s.lead(c, e)
		case Ended:
			s.w.say("%s: %v", s.key(), e)
			s.w.after(s.w.between(1, 3000), func() { s.post(forSeat{c, Release{}}) })
		case Quit:
			s.begin()
		}
	}
}

func (s *seat) lead(c *Candidate, l Lead) {
	s.w.say("%s leads with %v until %v of its clock", s.key(), l.Grant, l.Stop)
	if l.Grant.Token <= s.e.top {
		s.w.broken("epoch %d leads after %d", l.Grant.Token, s.e.top)
	}
	s.e.top = l.Grant.Token
	s.e.terms++
	s.w.after(s.w.between(500, 20000), func() {
		other := s.e.seats[s.w.r.IntN(len(s.e.seats))]
		if other != s && s.w.oneIn(2) {
			s.w.say("%s passes to %s", s.key(), other.key())
			s.post(forSeat{c, Pass{Key: other.key()}})
		} else {
			s.post(forSeat{c, Release{}})
		}
	})
}

func (s *seat) send(c *Candidate, q Send) {
	name := s.key()
	if q.Op == OpList {
		name = "e/"
	}
	a := Ask{Op: q.Op, Name: name, Key: q.Key, Nonce: q.Nonce, Length: 10 * sec, Grant: q.Grant.Grant}
	s.call(q.Deadline, func(reply func(Event)) {
		s.e.serve(a, func(r Reply) {
			reply(forSeat{c, Answer{Op: q.Op, Try: q.Try, Grant: r.Grant, State: r.State, List: r.List, Err: r.Err}})
		})
	}, forSeat{c, Answer{Op: q.Op, Try: q.Try, Err: errLost}})
}

// changed tells those who watch a key, and the one whose key was put ahead.
func (e *electorate) changed(key string, token fence.Token, moved bool) {
	for _, s := range e.seats {
		mine := moved && s.key() == key || !moved && s.watch.Key == key && s.watch.Token == token
		if c := s.c; mine && !e.w.oneIn(10) {
			e.w.after(e.w.between(1, 300), func() { s.post(forSeat{c, Woken{}}) })
		}
	}
}

// check: whoever believes that it leads is the first in the line.
func (s *seat) check() {
	if s.c.Leading().IsZero() || s.clock() >= s.c.Holder().Stop() {
		return
	}
	line := s.e.cluster.lead.l.list("e/").Keys
	if len(line) == 0 || line[0].Key != s.key() {
		s.w.broken("%s believes that it leads with %v; the line is %v", s.key(), s.c.Leading(), line)
	}
	for _, o := range s.e.seats {
		if o != s && !o.c.Leading().IsZero() && o.clock() < o.c.Holder().Stop() {
			s.w.broken("%s and %s lead", s.key(), o.key())
		}
	}
}

func electionWorld(seed uint64, without Rules) *world {
	w := newWorld(seed)
	e := &electorate{cluster: newCluster(w, LessorConfig{Without: without})}
	e.cluster.watched = e.changed
	e.elections(100 * sec)
	for _, name := range []string{"a", "b", "c", "d"} {
		s := &seat{body: w.body(name), e: e, without: without}
		s.hear = s.hearFor
		s.naps(100 * sec)
		e.seats = append(e.seats, s)
		s.begin()
	}
	w.verify = func() {
		for _, s := range e.seats {
			s.check()
		}
	}
	w.run(100 * sec)
	calm := e.terms
	w.run(220 * sec)
	if w.wrong == "" && e.terms < calm+3 {
		w.broken("%d terms since the faults ended", e.terms-calm)
	}
	return w
}

func TestWhoBelievesThatItLeadsIsTheFirstInTheLine(t *testing.T) {
	if seed, w := firstBroken(electionWorld, 0, *worlds/2); w != nil {
		t.Fatalf("seed %d: %s", seed, w.story())
	}
	for _, rule := range []Rules{RuleFloor, RuleFullLength} {
		seed, w := firstBroken(electionWorld, rule, 500)
		if w == nil {
			t.Errorf("without %v no world breaks", rule)
			continue
		}
		t.Logf("without %v, seed %d: %s", rule, seed, w.wrong)
	}
}
