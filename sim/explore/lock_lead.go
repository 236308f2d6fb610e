package explore

import (
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// watch looks for a leader that has lost its majority.
func (s *lock) watch() {
	switch {
	case s.leads(s.leader):
		s.since = -1
	case s.since < 0:
		s.since = s.w.Now()
	case s.w.Now()-s.since >= s.p.Election:
		for i := range s.nodes {
			if n := s.nodes[(i+int(s.term))%len(s.nodes)]; s.majority(n) {
				s.elect(n)
				break
			}
		}
	}
	s.w.After(100*time.Millisecond, world.OrderSelf, s.watch)
}

// elect makes a node the leader of the next term. What the old one has proposed
// is in the new one's log up to some point, and lost from there on. The old one
// may hear of it late.
func (s *lock) elect(n *node) {
	if s.forgets && s.leader != nil {
		s.lapse()
	}
	old := s.leader
	for kept := s.rng.IntN(len(s.flight) + 1); kept > 0; kept-- {
		s.log = append(s.log, s.flight[0])
		s.flight = s.flight[1:]
	}
	s.flight = nil
	s.term++
	s.leader, s.epoch, s.since = n, n.m.Epoch(), -1
	if old != nil && old != n {
		s.w.After(time.Duration(s.rng.IntN(1500))*time.Millisecond, world.OrderMessage, func() {
			if old != s.leader {
				old.m.Deliver(world.OrderMessage, func() { old.step(protocol.Demoted{}) })
			}
		})
	}
	term := s.term
	n.m.Deliver(world.OrderMessage, func() {
		n.catchUp()
		if s.term == term {
			n.step(protocol.Promoted{Term: term})
			s.catchUpAll()
		}
	})
}

func (s *lock) catchUpAll() {
	for _, n := range s.nodes {
		if n != s.leader && s.w.Net.Connected(s.leader.m, n.m) {
			n.m.Deliver(world.OrderMessage, n.catchUp)
		}
	}
}

// lapse loses the last entries of the log, as a replica does that was promoted
// before it had them. Only a service that promises nothing does that.
func (s *lock) lapse() {
	s.rewind(max(0, len(s.log)-1-s.rng.IntN(3)))
}

// rewind makes every node one that has applied the first n entries only.
func (s *lock) rewind(n int) {
	s.log = append([]protocol.Applied(nil), s.log[:n]...)
	s.told = min(s.told, n)
	for _, n := range s.nodes {
		n.alarm.Stop()
		n.forget()
		for n.applied < len(s.log) {
			n.applied++
			n.l.Step(n.m.Mono.Now(), s.log[n.applied-1])
		}
	}
}

// save is a backup of the service, as it is now.
func (s *lock) save() []byte {
	s.leader.catchUp()
	return s.leader.l.Marshal()
}

// restore is an operator who starts the service again from a backup, unless the
// bump is too small.
func (s *lock) restore(backup []byte, bump int64) error {
	l, err := protocol.RecoverLessor(s.cfg, backup, bump, s.given)
	if err != nil {
		return err
	}
	s.reigns++
	s.base, s.log, s.flight, s.told = l.Marshal(), nil, nil, 0
	for _, n := range s.nodes {
		n.alarm.Stop()
		n.forget()
	}
	leader := s.leader
	s.leader = nil
	s.elect(leader)
	return nil
}
