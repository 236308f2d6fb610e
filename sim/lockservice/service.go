// Package lockservice is the lock service of the simulator: three or five nodes
// on go.etcd.io/raft, each with a protocol.Lessor, on machines, disks and a
// network of package world.
//
// Raft draws election timeouts from crypto/rand, one reader for the whole
// process, which seeded runs side by side could not share (decision 0007). So only a
// leader uses raft's own ticks; the others' clocks are moved by TickQuiesced,
// which never campaigns, and each node campaigns when a timeout from its own
// seeded stream has passed (election.go). What raft draws is never looked at, and
// any number of runs go on in one process.
package lockservice

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Config is a lock service's settings; the zero value is three nodes, n1 to n3.
type Config struct {
	Nodes    int    // 3 if zero
	Prefix   string // of the machines' names; "n" if empty
	Revision int64  // of the counter at the start: other keys were there before
	Lessor   protocol.LessorConfig

	Tick          time.Duration // of raft; 100 ms if zero
	ElectionTicks int           // 10 if zero; a timeout is from one to two times as long
	// Scripted nodes never campaign by themselves: the scenario says who is
	// elected when (Campaign). Everything else is the same.
	Scripted bool

	// SnapshotEvery is after how many entries a node writes a snapshot and
	// drops what lies before it; 256 if zero.
	SnapshotEvery uint64
	// Patience is how long a client waits for one node before it asks another
	// for its next request; 1 s if zero.
	Patience time.Duration
}

func (c Config) filled() Config {
	if c.Nodes == 0 {
		c.Nodes = 3
	}
	if c.Prefix == "" {
		c.Prefix = "n"
	}
	if c.Tick == 0 {
		c.Tick = 100 * time.Millisecond
	}
	if c.ElectionTicks == 0 {
		c.ElectionTicks = 10
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = 256
	}
	if c.Patience == 0 {
		c.Patience = time.Second
	}
	return c
}

// Service is a lock service in a world. Make one with New.
type Service struct {
	// Counters: Installs are snapshots that a node took over because it was too
	// far behind, Wakes are watches that were answered.
	Elections, Proposals, Commits, Snapshots, Installs, Wakes uint64
	// Violations are broken promises of raft itself, in words: there are none,
	// unless the simulator is wrong.
	Violations []string

	// OnWake is told, if it is set, of each watch that a removal wakes at a node.
	OnWake func(at *Node, who *world.Machine, key string, rev int64)

	w          *world.World
	cfg        Config
	nodes      []*Node
	clients    map[*world.Machine]*client // looked up, never ranged over
	ids        uint64
	generation int   // of the cluster: a restore begins a new one
	given      int64 // the highest revision that any node has applied

	check checker
}

// Node is one node of the service.
type Node struct {
	Machine *world.Machine

	s     *Service
	id    uint64
	rng   *rand.Rand
	state state // of the process: gone with a crash
	disk  disk  // kept
}

// New makes the machines of a lock service, and starts it.
func New(w *world.World, cfg Config) *Service {
	s := &Service{w: w, cfg: cfg.filled(), clients: map[*world.Machine]*client{}}
	l := protocol.NewLessor(s.cfg.Lessor)
	if s.cfg.Revision > 0 {
		l.Step(0, protocol.Applied{Command: protocol.Command{Op: protocol.CmdBump, By: s.cfg.Revision}})
	}
	for i := range s.cfg.Nodes {
		m := w.Machine(fmt.Sprintf("%s%d", s.cfg.Prefix, i+1))
		n := &Node{Machine: m, s: s, id: uint64(i + 1), rng: w.Rand("raft " + m.Name)}
		m.OnCrash(n.crashed)
		m.OnStart(n.start)
		s.nodes = append(s.nodes, n)
	}
	s.begin(l.Marshal())
	return s
}

// begin starts every node on a disk with nothing but a snapshot.
func (s *Service) begin(snapshot []byte) {
	s.generation++
	s.check = checker{s: s}
	for _, n := range s.nodes {
		n.disk.format(s, snapshot)
	}
	for _, n := range s.nodes {
		if n.Machine.Up() {
			n.start()
		}
	}
}

// Settle elects the first node now, and goes on until it leads. It is for the
// beginning of a scenario, before anybody asks for anything, and panics if the
// network is such that nobody is elected within a minute.
func (s *Service) Settle() {
	s.Campaign(s.nodes[0])
	from := s.w.Now()
	until := from
	for s.Leader() == nil {
		if !s.w.Step(until) {
			until += time.Millisecond
		}
		if until > from+time.Minute {
			panic("lockservice: the first election fails: elect before the network does")
		}
	}
}

// Nodes are all nodes, in order.
func (s *Service) Nodes() []*Node { return s.nodes }

// Machines are the nodes' machines, in order.
func (s *Service) Machines() []*world.Machine {
	var all []*world.Machine
	for _, n := range s.nodes {
		all = append(all, n.Machine)
	}
	return all
}

// Leader is the node that leads in the highest term and serves, or nil. An old
// leader that has not noticed that it was replaced is not it.
func (s *Service) Leader() *Node {
	var leader *Node
	for _, n := range s.nodes {
		if n.Leads() && (leader == nil || n.state.term > leader.state.term) {
			leader = n
		}
	}
	return leader
}

// Leads reports whether the node believes that it leads, and serves.
func (n *Node) Leads() bool { return n.state.lessor != nil && n.state.lessor.Leads() }

// Term is the node's raft term; zero while it is down.
func (n *Node) Term() uint64 { return n.state.term }

// Lessor is the node's; nil while it is down. It is there to be looked at.
func (n *Node) Lessor() *protocol.Lessor { return n.state.lessor }

// Revision is the counter as the most advanced node has it.
func (s *Service) Revision() int64 {
	if l := s.newest(); l != nil {
		return l.Revision()
	}
	return 0
}

// State is what the most advanced node says of a name.
func (s *Service) State(name string) authority.State {
	if l := s.newest(); l != nil {
		return l.State(name)
	}
	return authority.State{Name: name}
}

// newest is the lessor that has applied most.
func (s *Service) newest() *protocol.Lessor {
	var newest *Node
	for _, n := range s.nodes {
		if n.state.lessor != nil && (newest == nil || n.state.applied > newest.state.applied) {
			newest = n
		}
	}
	if newest == nil {
		return nil
	}
	return newest.state.lessor
}

// Deadline is the true time at which the leader lets go of a name, as its clock
// goes now; zero if nobody leads or the name is free.
func (s *Service) Deadline(name string) time.Duration {
	n := s.Leader()
	if n == nil {
		return 0
	}
	return n.deadline(name)
}

func (n *Node) deadline(name string) time.Duration {
	at, ok := n.state.lessor.Deadline(name)
	if !ok {
		return 0
	}
	return n.Machine.Mono.When(at)
}

// Backup is a snapshot of what the log says, as an operator takes it; nil while
// every node is down.
func (s *Service) Backup() []byte {
	l := s.newest()
	if l == nil {
		return nil
	}
	return l.Marshal()
}

// Restore stops every node and starts the service again from a backup, with the
// revision moved on by bump. Clients keep what they believe. A bump that leaves
// the counter below what the service has ever given out is refused, and nothing
// is changed.
func (s *Service) Restore(backup []byte, bump int64) error {
	l, err := protocol.RecoverLessor(s.cfg.Lessor, backup, bump, s.given)
	if err != nil {
		return err
	}
	for _, n := range s.nodes {
		n.Machine.Crash()
	}
	s.begin(l.Marshal())
	for _, n := range s.nodes {
		n.Machine.Restart()
	}
	s.w.Log.Add(world.Event{Who: s.nodes[0].Machine.Name, What: "restored", Rev: uint64(l.Revision())})
	if s.cfg.Scripted {
		s.Campaign(s.nodes[0])
	}
	return nil
}
