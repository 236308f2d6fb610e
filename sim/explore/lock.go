package explore

import (
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// lock is a replicated lock service without the protocol that agrees on its log:
// one log, one leader for each term, nodes that apply it at their own pace, and
// a lessor on each. It stands in for Raft where the explorer is to run a hundred
// thousand worlds; package lockservice has the real one.
type lock struct {
	w     *world.World
	cfg   protocol.LessorConfig
	p     Settings
	rng   *rand.Rand
	nodes []*node

	term   uint64
	leader *node
	epoch  int           // of the leader's machine: a restart has forgotten that it leads
	since  time.Duration // since when the leader has had no majority; -1: it has one
	base   []byte        // the snapshot that the log goes on from; nil: an empty service
	log    []protocol.Applied
	flight []protocol.Applied // proposed, not in the log yet
	reigns int                // restores so far: what was begun before one is dropped
	id     uint64
	told   int   // entries whose grants were told
	given  int64 // the highest revision that a node has applied

	forgets bool
	watches []*watch
	move    protocol.Moved // the last one
	hints   map[*world.Machine]*hint

	// OnWake is told of each waiter that is woken, and by which key's removal.
	OnWake func(who, key string, rev int64)
	// OnGrant is told of each key that is created, in the order of the log.
	OnGrant func(name string, token int64)
}

// node is one machine of the service.
type node struct {
	s       *lock
	m       *world.Machine
	l       *protocol.Lessor
	applied int
	alarm   *world.Alarm
	asked   map[uint64]func(protocol.Reply)
}

func newLock(w *world.World, p Plan) *lock {
	s := &lock{w: w, p: p.Settings, rng: w.Rand("lock"), since: -1, hints: map[*world.Machine]*hint{}}
	s.cfg = protocol.LessorConfig{Checkpoint: p.Checkpoint, Without: p.Without}
	s.forgets = p.Kind == Forgets
	for _, name := range p.nodes() {
		n := &node{s: s, m: w.Machine(name)}
		n.forget()
		n.m.OnCrash(func() { n.asked = nil })
		n.m.OnStart(n.restart)
		s.nodes = append(s.nodes, n)
	}
	s.elect(s.nodes[0])
	s.watch()
	return s
}

// forget makes the node one that has just started.
func (n *node) forget() {
	n.l, n.applied, n.asked = protocol.NewLessor(n.s.cfg), 0, map[uint64]func(protocol.Reply){}
	if n.s.base != nil {
		l, err := protocol.RestoreLessor(n.s.cfg, n.m.Mono.Now(), n.s.base)
		if err != nil {
			panic(err) // it was written by Marshal
		}
		n.l = l
	}
}

// restart begins with a snapshot of the log that a peer sends, as a node does
// whose own log was compacted.
func (n *node) restart() {
	n.forget()
	if from := n.s.leader; from != nil && from != n && from.m.Up() && n.s.rng.IntN(2) == 0 {
		l, err := protocol.RestoreLessor(n.s.cfg, n.m.Mono.Now(), from.l.Marshal())
		if err != nil {
			panic(err) // it was written by Marshal
		}
		n.l, n.applied = l, from.applied
	}
	n.catchUp()
}

// step hands an event to the node's lessor.
func (n *node) step(e protocol.Event) {
	for _, effect := range n.l.Step(n.m.Mono.Now(), e) {
		switch e := effect.(type) {
		case protocol.Arm:
			n.alarm.Stop()
			n.alarm = nil
			if e.At != 0 {
				n.alarm = n.m.Mono.Alarm(e.At, world.OrderTimer, func() { n.step(protocol.Tick{}) })
			}
		case protocol.Propose:
			n.s.propose(n, e.Command)
		case protocol.Confirm:
			n.s.confirm(n, e.ID)
		case protocol.Reply:
			if reply := n.asked[e.ID]; reply != nil {
				delete(n.asked, e.ID)
				reply(e)
			}
		case protocol.Removed:
			n.s.removed(n, e)
		case protocol.Moved:
			n.s.moved(n, e)
		}
	}
}

// catchUp applies what the log has.
func (n *node) catchUp() {
	for n.applied < len(n.s.log) {
		e := n.s.log[n.applied]
		n.applied++
		n.s.apply(n, e)
	}
}

// apply hands an entry to a node. The first node that applies it tells of the
// key that it has created.
func (s *lock) apply(n *node, e protocol.Applied) {
	c := e.Command
	if n.applied <= s.told || c.Op != protocol.CmdCreate || s.OnGrant == nil {
		n.step(e)
		s.given = max(s.given, n.l.Revision())
		return
	}
	s.told = n.applied
	before := n.l.State(c.Name).Grant
	n.step(e)
	s.given = max(s.given, n.l.Revision())
	if after := n.l.State(c.Name).Grant; after != before {
		s.OnGrant(c.Name, int64(after.Token))
	}
}

// propose puts a command into the log after the time that a commit takes.
func (s *lock) propose(n *node, c protocol.Command) {
	if n != s.leader || c.Term != s.term {
		return
	}
	s.flight = append(s.flight, protocol.Applied{Term: s.term, Command: c})
	term := s.term
	s.w.After(s.p.Commit, world.OrderDisk, func() { s.commit(term) })
}

// commit moves the oldest proposal into the log, once a majority has it.
func (s *lock) commit(term uint64) {
	if term != s.term || len(s.flight) == 0 {
		return
	}
	if !s.leads(s.leader) {
		s.w.After(s.p.Commit+50*time.Millisecond, world.OrderDisk, func() { s.commit(term) })
		return
	}
	s.append(s.flight[0])
	s.flight = s.flight[1:]
}

func (s *lock) append(e protocol.Applied) {
	s.log = append(s.log, e)
	for _, n := range s.nodes {
		if n == s.leader || s.w.Net.Connected(s.leader.m, n.m) {
			n.m.Deliver(world.OrderMessage, n.catchUp)
		}
	}
}

// majority reports whether a node could have its entries acknowledged.
func (s *lock) majority(n *node) bool {
	if n == nil || !n.m.Up() || n.m.Paused() {
		return false
	}
	acks := 1
	for _, peer := range s.nodes {
		if peer != n && peer.m.Up() && !peer.m.Paused() && s.w.Net.Connected(n.m, peer.m) && s.w.Net.Connected(peer.m, n.m) {
			acks++
		}
	}
	return acks > len(s.nodes)/2
}

// leads reports whether a node is a leader that can still have entries
// acknowledged.
func (s *lock) leads(n *node) bool {
	return n != nil && n == s.leader && n.m.Epoch() == s.epoch && s.majority(n)
}

// confirm is a read index: a majority says that the node still leads.
func (s *lock) confirm(n *node, id uint64) {
	term, reign := s.term, s.reigns
	if n != s.leader {
		return
	}
	s.w.After(2*s.p.Delay, world.OrderMessage, func() {
		if s.term != term || s.reigns != reign || !s.leads(n) {
			return
		}
		n.m.Deliver(world.OrderMessage, func() {
			n.catchUp()
			n.step(protocol.Confirmed{ID: id})
		})
	})
}
