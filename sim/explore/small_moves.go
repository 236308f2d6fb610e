package explore

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
)

// A move is one thing that may happen next. A path of them leads to a state.
type move struct {
	kind moveKind
	n    int // of the worker or the message
}

type moveKind uint8

const (
	second  moveKind = iota // passes
	arrives                 // message n
	mute                    // message n arrives, and its answer is late or lost
	lost                    // message n
	tick                    // worker n finds that it is time
	gaveUp                  // worker n: a request's deadline has passed
	works                   // worker n looks at its stop time and sends a chunk
	repeats                 // worker n asks the table again
	expires                 // the leader takes away what has passed its deadline
	leader                  // the other node leads
)

// moves lists what may happen next.
func (s *small) moves() []move {
	var all []move
	add := func(k moveKind, n int) { all = append(all, move{k, n}) }
	for n, m := range s.flight {
		add(arrives, n)
		if s.lost < s.cfg.Lost {
			add(lost, n)
			if m.reply == nil {
				add(mute, n)
			}
		}
	}
	for n, w := range s.workers {
		if w.armed != 0 && s.now >= w.armed {
			add(tick, n)
		}
		if s.expired(n) >= 0 {
			add(gaveUp, n)
		}
		inside := w.h.Holding() && s.now < w.h.Stop() && !w.over
		if inside && w.raised && !w.asking && w.next > 0 {
			add(works, n)
		}
		if inside && w.asking && !s.underway(n) {
			add(repeats, n)
		}
	}
	if s.due() {
		add(expires, 0)
	}
	if s.changes < s.cfg.Changes {
		add(leader, 0)
	}
	if time.Duration(s.now) < time.Duration(s.cfg.Seconds+1)*time.Second {
		add(second, 0)
	}
	return all
}

// expired is the first open request whose deadline has passed, or -1.
func (s *small) expired(n int) int {
	for i, o := range s.workers[n].open {
		if o.Deadline != 0 && s.now >= o.Deadline && !s.carried(n, o) {
			return i
		}
	}
	return -1
}

// carried reports whether a request or its reply is on its way. A worker gives
// up only what was lost: what is merely slow costs one of the messages that may
// be lost, and arrives later.
func (s *small) carried(n int, o protocol.Send) bool {
	for _, m := range s.flight {
		if m.worker == n && m.life == s.workers[n].life && m.send.Op == o.Op && m.send.Try == o.Try && m.reply == nil {
			return true
		}
	}
	return false
}

// underway reports whether a worker's request of the table is on its way.
func (s *small) underway(n int) bool {
	for _, m := range s.flight {
		if m.worker == n && m.life == s.workers[n].life && (m.raise || m.write != nil) {
			return true
		}
	}
	return false
}

// do makes a move.
func (s *small) do(m move) {
	switch m.kind {
	case second:
		s.now = s.now.Add(time.Second)
	case arrives, mute:
		s.deliver(s.takeOut(m.n), m.kind == arrives)
		if m.kind == mute {
			s.lost++
			s.say("and the answer does not arrive yet")
		}
	case lost:
		s.takeOut(m.n)
		s.lost++
		s.say("a message is lost")
	case tick:
		w := s.workers[m.n]
		w.armed = 0
		s.step(m.n, protocol.Tick{})
	case gaveUp:
		o := s.workers[m.n].open[s.expired(m.n)]
		s.answer(m.n, protocol.Answer{Op: o.Op, Try: o.Try, Err: context.DeadlineExceeded})
	case works, repeats:
		s.work(m.n)
	case expires:
		s.say("the lease is taken away")
		s.lessor(s.lead, protocol.Tick{})
	case leader:
		s.changes++
		s.say("another node leads")
		s.promote(1 - s.lead)
	}
}

func (s *small) takeOut(n int) message {
	m := s.flight[n]
	s.flight = append(s.flight[:n:n], s.flight[n+1:]...)
	return m
}

// work sends what the worker has to send: the chunk that is next, or the raise.
func (s *small) work(n int) {
	w := s.workers[n]
	w.asking = true
	m := message{worker: n, life: w.life, raise: !w.raised}
	if w.raised {
		m.write = &store.Write{Grant: w.grant, Seq: w.seq, Chunk: w.next, Mark: fmt.Sprintf("%s/%d", w.grant, w.next)}
		s.say("%s looks at its stop time %v, and sends chunk %d", s.name(n), time.Duration(w.h.Stop())-time.Second, w.next)
	}
	s.flight = append(s.flight, m)
}

// hash is the state's fingerprint. Messages count in any order.
func (s *small) hash() hash64 {
	h := fnvOffset
	h.any(s.now)
	for _, w := range s.workers {
		h.any(w)
	}
	for _, l := range s.nodes {
		h.any(l)
	}
	h.any(s.table.Read(job))
	h.any([]int{s.lead, s.lost, s.changes, int(s.granted), int(s.highest)})
	var sum hash64
	for _, m := range s.flight {
		one := fnvOffset
		if m.reply != nil {
			m.reply.ID = 0
		}
		one.any(m)
		sum += one
	}
	h.uint(uint64(sum))
	return h
}
