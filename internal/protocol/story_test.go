package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// service is a lock service of one node, whose log and majority take no time.
type service struct {
	t       *testing.T
	l       *Lessor
	now     Instant
	timer   Instant
	id      uint64
	replies []Reply
	removed []Removed
	hold    bool      // the log stands still
	log     []Command // what it holds back
	term    uint64
	queue   []Event
	tape    *tape
	busy    bool
}

func newService(t *testing.T, cfg LessorConfig) *service {
	s := &service{t: t, l: NewLessor(cfg)}
	s.promote()
	return s
}

func (s *service) promote() {
	s.term++
	s.step(Promoted{s.term})
}

// step hands over an event, and then what follows from it at once.
func (s *service) step(ev Event) {
	s.queue = append(s.queue, ev)
	for !s.busy && len(s.queue) > 0 {
		ev, s.queue = s.queue[0], s.queue[1:]
		s.busy = true
		s.one(ev)
		s.busy = false
	}
}

func (s *service) one(ev Event) {
	out := s.l.Step(s.now, ev)
	s.tape.record(s.now, "node", ev, out)
	for _, e := range out {
		switch e := e.(type) {
		case Propose:
			s.log = append(s.log, e.Command)
			s.flush()
		case Confirm:
			s.step(Confirmed(e))
		case Reply:
			s.replies = append(s.replies, e)
		case Removed:
			s.removed = append(s.removed, e)
		case Arm:
			s.timer = e.At
		}
	}
}

func (s *service) flush() {
	for !s.hold && len(s.log) > 0 {
		c := s.log[0]
		s.log = s.log[1:]
		s.step(Applied{Term: s.term, Command: c})
	}
}

// to lets time pass.
func (s *service) to(d time.Duration) {
	for s.timer != 0 && s.timer <= at(d) {
		s.now, s.timer = s.timer, 0
		s.step(Tick{})
	}
	s.now = at(d)
}

func (s *service) ask(a Ask) Reply {
	s.t.Helper()
	s.id++
	a.ID = s.id
	s.step(a)
	for i := len(s.replies) - 1; i >= 0; i-- {
		if s.replies[i].ID == s.id {
			return s.replies[i]
		}
	}
	return Reply{Err: errors.New("no answer yet")}
}

func (s *service) acquire(name, nonce string) Reply {
	s.t.Helper()
	return s.ask(Ask{Op: OpAcquire, Name: name, Nonce: nonce, Length: 10 * sec})
}

func (s *service) renew(g authority.Grant) Reply {
	s.t.Helper()
	return s.ask(Ask{Op: OpRenew, Name: g.Name, Grant: g.Grant})
}

const sec = time.Second

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// others uses up revisions, as other jobs' keys do.
func (s *service) others(n int64) { s.ask(Ask{Op: OpBump, By: n}) }

func (s *service) wantDeadline(name string, want time.Duration) {
	s.t.Helper()
	if got, ok := s.l.Deadline(name); !ok || got != at(want) {
		s.t.Fatalf("at %v the deadline of %q is %v (held %v), want %v", s.now, name, got, ok, want)
	}
}

func (s *service) wantToken(r Reply, want fence.Token) authority.Grant {
	s.t.Helper()
	if r.Err != nil || r.Grant.Token != want {
		s.t.Fatalf("at %v: %v, want token %d", s.now, r, want)
	}
	return r.Grant
}

// TestTheBillingStoryAtTheLockService is the story of a job that three workers
// do, one after the other, as the lock service lives it.
func TestTheBillingStoryAtTheLockService(t *testing.T) {
	s := newService(t, LessorConfig{})
	s.others(6)
	a := s.wantToken(s.acquire("job", "a-1"), 7)
	s.wantDeadline("job", 10*sec)
	s.to(3 * sec)
	s.wantToken(s.renew(a), 7)
	s.wantDeadline("job", 13*sec)
	s.others(3)
	s.to(ms(12999))
	if _, held := s.l.Deadline("job"); !held {
		t.Fatal("the key went before its deadline")
	}
	s.to(13 * sec)
	if _, held := s.l.Deadline("job"); held || s.l.Revision() != 11 {
		t.Fatalf("at 13 s the key is held (%v), revision %d, want 11", held, s.l.Revision())
	}
	s.to(ms(13500))
	b := s.wantToken(s.acquire("job", "b-1"), 12)
	s.wantDeadline("job", ms(23500))
	s.to(ms(16500))
	s.renew(b)
	s.to(ms(19500))
	s.renew(b)
	s.wantDeadline("job", ms(29500))
	s.to(ms(29500))
	if s.l.Revision() != 13 {
		t.Fatalf("revision %d after B's key expired, want 13", s.l.Revision())
	}
	s.others(1)
	s.to(ms(40200))
	c := s.wantToken(s.acquire("job", "c-1"), 15)
	s.to(ms(43200))
	s.renew(c)
	s.to(ms(46200))
	s.renew(c)
	s.wantDeadline("job", ms(56200))
	s.to(ms(49100))
	s.promote()
	s.wantDeadline("job", ms(59100))
	s.to(ms(49200))
	s.wantToken(s.renew(c), 15)
	s.wantDeadline("job", ms(59200))
	s.to(52 * sec)
	if r := s.ask(Ask{Op: OpRelease, Name: "job", Grant: c.Grant}); r.Err != nil || s.l.Revision() != 16 {
		t.Fatalf("release: %v, revision %d, want 16", r, s.l.Revision())
	}
}
