package lockservice

import (
	"go.etcd.io/raft/v3"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// tick is raft's clock. A leader's heartbeats and its look at its quorum are
// raft's own; the others only grow older, and campaign by our own draw.
func (n *Node) tick() {
	n.Machine.Mono.After(n.s.cfg.Tick, n.tick)
	st := &n.state
	if st.role == raft.StateLeader {
		st.raft.Tick()
		n.look()
		n.pump()
		return
	}
	st.raft.TickQuiesced()
	st.idle++
	if !n.s.cfg.Scripted && st.idle >= st.patience {
		n.campaign()
	}
}

// Campaign makes a node stand for election now. Nodes that have heard of a leader
// within the last election timeout (one second, unless Config says otherwise)
// refuse it their votes, as CheckQuorum wants: a scenario lets that time pass
// after the leader's death.
func (s *Service) Campaign(n *Node) {
	if n.state.raft != nil {
		n.Machine.Deliver(world.OrderFault, n.campaign)
	}
}

// Transfer makes the leader hand its office to a node, which stands for election at
// once: nobody waits for a timeout.
func (s *Service) Transfer(to *Node) {
	leader := s.Leader()
	if leader == nil || leader == to {
		return
	}
	leader.Machine.Deliver(world.OrderFault, func() {
		if leader.Leads() {
			leader.state.raft.TransferLeader(to.id)
			leader.look()
			leader.pump()
		}
	})
}

func (n *Node) campaign() {
	if n.state.raft == nil {
		return
	}
	n.patience()
	_ = n.state.raft.Campaign()
	n.look()
	n.pump()
}

// patience draws how many ticks the node waits for a leader from now on: from
// one to two timeouts, as raft does.
func (n *Node) patience() {
	n.state.idle = 0
	n.state.patience = n.s.cfg.ElectionTicks + n.rng.IntN(n.s.cfg.ElectionTicks)
}

// look notes what has become of this node's role and term.
func (n *Node) look() {
	st := n.state.raft.BasicStatus()
	if st.GetTerm() == n.state.term && st.RaftState == n.state.role {
		return
	}
	old, role := n.state.term, st.RaftState
	led := n.state.role == raft.StateLeader
	n.state.term, n.state.role = st.GetTerm(), role
	n.patience()
	if led && (role != raft.StateLeader || old != n.state.term) {
		n.demoted()
	}
	if role == raft.StateLeader {
		n.s.check.elected(n)
		n.s.Elections++
		n.log(world.Event{What: "elected", Term: n.state.term, Detail: true})
	}
}

// promoted begins to serve: the node has applied an entry of its own term, and
// with it all that came before.
func (n *Node) promoted() {
	n.step(protocol.Promoted{Term: n.state.term})
	n.log(world.Event{What: "leads", Term: n.state.term, Rev: uint64(n.state.lessor.Revision())})
}

func (n *Node) demoted() {
	n.state.reads = reads{}
	if n.Leads() {
		n.step(protocol.Demoted{})
		n.log(world.Event{What: "steps-down", Term: n.state.term})
	}
}

func (n *Node) log(e world.Event) {
	e.Who = n.Machine.Name
	n.s.w.Log.Add(e)
}
