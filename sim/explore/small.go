package explore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
)

// small is a world for an exhaustive search: a few workers, a lessor on each of
// two nodes, a table, and messages that arrive in any order, late or never. The
// clocks agree, and time goes on in whole seconds; nobody has to notice: a
// machine that is not handed its tick is a machine that is paused.
type small struct {
	cfg     SmallConfig
	now     authority.Instant
	workers []*smallWorker
	nodes   [2]*protocol.Lessor
	lead    int
	term    uint64
	ids     uint64
	table   *store.Table
	flight  []message
	lost    int // messages that were lost so far
	changes int // of the leader
	granted fence.Token
	highest fence.Token // accepted by the table
	broken  *Broken
	told    []string // what happened, if asked for
	tell    bool
}

// SmallConfig bounds a small world.
type SmallConfig struct {
	Workers int
	Chunks  int
	Seconds int // that may pass
	Lost    int // messages that may be lost
	Changes int // of the lock service's leader
	Without protocol.Rules
}

// smallTimes leave as few instants as possible: asked at 0, renewed or given up
// at 1, over for the holder at 2 and for the lock service at 3.
var smallTimes = protocol.Times{Length: 3 * time.Second, Margin: time.Second, Renew: time.Second, Timeout: time.Second}

// message is on its way. To the lock service it is a request, from there a
// reply, to the table a raise or a write.
type message struct {
	worker int
	send   protocol.Send
	reply  *protocol.Reply
	raise  bool
	write  *store.Write
	life   int // of the worker that it belongs to
}

// smallWorker bills one job, chunk by chunk.
type smallWorker struct {
	h      *protocol.Holder
	armed  authority.Instant
	open   []protocol.Send // without an answer
	life   int
	grant  fence.Grant
	stop   authority.Instant
	raised bool
	asking bool // a request of the table is under way
	next   int
	seq    int64
	over   bool
}

func newSmall(cfg SmallConfig) *small {
	s := &small{cfg: cfg, now: authority.Instant(time.Second)}
	p := Plan{Without: cfg.Without}
	s.table = store.NewTable(cfg.Chunks, p.off())
	for i := range s.nodes {
		s.nodes[i] = protocol.NewLessor(protocol.LessorConfig{Without: cfg.Without})
	}
	s.promote(0)
	for i := range cfg.Workers {
		w := &smallWorker{}
		s.workers = append(s.workers, w)
		s.start(i)
	}
	return s
}

func (s *small) say(format string, args ...any) {
	if s.tell {
		s.told = append(s.told, fmt.Sprintf("%4ds  ", int(time.Duration(s.now)/time.Second)-1)+fmt.Sprintf(format, args...))
	}
}

func (s *small) breaks(promise, format string, args ...any) {
	if s.broken == nil {
		s.broken = &Broken{Promise: promise, Why: fmt.Sprintf(format, args...), At: time.Duration(s.now) - time.Second}
	}
}

func (s *small) start(i int) {
	w := s.workers[i]
	w.life++
	*w = smallWorker{life: w.life, h: protocol.NewHolder(protocol.Config{
		Name: job, Prefix: fmt.Sprintf("%c%d", 'A'+i, w.life), Times: smallTimes, Wait: true, Without: s.cfg.Without,
	})}
	s.step(i, protocol.Start{})
}

// step hands an event to a worker's holder.
func (s *small) step(i int, e protocol.Event) {
	w := s.workers[i]
	for _, effect := range w.h.Step(s.now, e) {
		switch e := effect.(type) {
		case protocol.Arm:
			w.armed = e.At
		case protocol.Send:
			w.open = append(w.open, e)
			s.flight = append(s.flight, message{worker: i, send: e, life: w.life})
		case protocol.Recall:
			s.recall(i, e.Op)
		case protocol.Granted:
			w.grant, w.stop = e.Grant.Grant, e.Stop
			s.say("%s holds the lease with token %d, stop time %v", s.name(i), e.Grant.Token, time.Duration(e.Stop)-time.Second)
			s.overlap(i)
			w.asking = true
			s.flight = append(s.flight, message{worker: i, raise: true, life: w.life})
		case protocol.Kept:
			w.stop = e.Stop
			s.overlap(i)
		case protocol.Ended:
			w.stop = 0
			if w.grant.Token != 0 && !w.over {
				w.over = true
				s.say("%s: its lease has ended: %v", s.name(i), e.End.Reason)
				s.step(i, protocol.Release{}) // the work asks before each chunk, and stops
			}
		}
	}
}

func (s *small) name(i int) string { return string(rune('A' + i)) }

func (s *small) recall(i int, op protocol.Op) {
	w := s.workers[i]
	for _, o := range append([]protocol.Send(nil), w.open...) {
		if o.Op == op {
			s.answer(i, protocol.Answer{Op: o.Op, Try: o.Try, Err: context.Canceled})
		}
	}
}

// answer gives a holder the one answer to a request.
func (s *small) answer(i int, a protocol.Answer) {
	w := s.workers[i]
	for n, o := range w.open {
		if o.Op == a.Op && o.Try == a.Try {
			w.open = append(w.open[:n:n], w.open[n+1:]...)
			s.step(i, a)
			return
		}
	}
}

// overlap checks that nobody else is inside his stop time.
func (s *small) overlap(i int) {
	for n, o := range s.workers {
		if n != i && o.stop > s.now && s.workers[i].stop > s.now {
			s.breaks(PromiseOverlap, "%s may act with %d until %v, and %s with %d until %v", s.name(n), o.grant.Token,
				time.Duration(o.stop)-time.Second, s.name(i), s.workers[i].grant.Token, time.Duration(s.workers[i].stop)-time.Second)
		}
	}
}

// lessor hands an event to a node. What it proposes is in the log at once: a
// request that is on its way has every delay already.
func (s *small) lessor(n int, e protocol.Event) (replies []protocol.Reply) {
	for _, effect := range s.nodes[n].Step(s.now, e) {
		switch e := effect.(type) {
		case protocol.Propose:
			if n == s.lead && e.Command.Term == s.term {
				for i := range s.nodes {
					replies = append(replies, s.lessor(i, protocol.Applied{Term: s.term, Command: e.Command})...)
				}
			}
		case protocol.Confirm:
			if n == s.lead {
				replies = append(replies, s.lessor(n, protocol.Confirmed(e))...)
			}
		case protocol.Reply:
			replies = append(replies, e)
		}
	}
	return replies
}

func (s *small) promote(n int) {
	s.term++
	old := s.lead
	s.lead = n
	if old != n {
		s.lessor(old, protocol.Demoted{})
	}
	s.lessor(n, protocol.Promoted{Term: s.term})
}

// due reports whether the leader finds the lease passed.
func (s *small) due() bool {
	at, held := s.nodes[s.lead].Deadline(job)
	return held && s.now >= at
}

// deliver carries a message to where it goes.
func (s *small) deliver(m message, answered bool) {
	switch w := s.workers[m.worker]; {
	case m.reply != nil:
		if m.life == w.life {
			r := m.reply
			s.answer(m.worker, protocol.Answer{Op: r.Op, Try: m.send.Try, Grant: r.Grant, State: r.State, Err: r.Err})
		}
	case m.raise, m.write != nil:
		s.deliverStore(m, answered)
	default:
		s.deliverLock(m, answered)
	}
}

// deliverLock carries a request to the leader. The reply arrives at once, or is
// on its way from now on.
func (s *small) deliverLock(m message, answered bool) {
	s.ids++
	a := protocol.Ask{
		ID: s.ids, Op: m.send.Op, Name: job, Length: smallTimes.Length, Nonce: m.send.Nonce, Grant: m.send.Grant.Grant,
	}
	s.say("the lock service takes %v of %s", m.send.Op, s.name(m.worker))
	for _, r := range s.lessor(s.lead, a) {
		if r.ID != a.ID {
			continue
		}
		if t := r.Grant.Token; r.Op == protocol.OpAcquire && r.Err == nil {
			if t < s.granted {
				s.breaks(PromiseGrow, "token %d was granted after %d", t, s.granted)
			}
			s.granted = max(s.granted, t)
		}
		m.reply = &r
		if answered {
			s.deliver(m, true)
			return
		}
		s.flight = append(s.flight, m)
	}
}

func (s *small) deliverStore(m message, answered bool) {
	w := s.workers[m.worker]
	before := s.table.Read(job)
	var err error
	var g fence.Grant
	if m.raise {
		g = w.grant
		_, err = s.table.Raise(0, job, g)
		s.say("%s raises the fence with %d: %v", s.name(m.worker), g.Token, outcome(err))
	} else {
		g = m.write.Grant
		_, err = s.table.Write(job, *m.write)
		s.say("chunk %d of %s arrives with %d: %v", m.write.Chunk, s.name(m.worker), g.Token, outcome(err))
	}
	after := s.table.Read(job)
	s.books(before, after, g, err)
	if m.life != w.life || w.over {
		return
	}
	w.asking = !answered
	switch {
	case !answered: // it will be asked again
	case err != nil && !errors.Is(err, fence.ErrCommitted):
		w.over = true
		w.stop = 0
		s.step(m.worker, protocol.Release{})
	default:
		if m.raise {
			w.next = before.Next()
			w.raised = true
		} else {
			w.next = (m.write.Chunk + 1) % (s.cfg.Chunks + 1)
		}
		w.seq = after.Seq
	}
}

func outcome(err error) string {
	if err != nil {
		return "REFUSED"
	}
	return "accepted"
}

// books checks what the table has made of a request.
func (s *small) books(before, after store.Job, g fence.Grant, err error) {
	switch {
	case err == nil && g.Token < s.highest:
		s.breaks(PromiseOrder, "%d was let in after %d", g.Token, s.highest)
	case err == nil:
		s.highest = g.Token
	}
	if after.Twice() > 0 {
		s.breaks(PromiseOnce, "a chunk was charged twice")
	}
	var a, b hash64
	a.any(before)
	b.any(after)
	if err != nil && a != b {
		s.breaks(PromiseRefused, "the row has changed")
	}
}
