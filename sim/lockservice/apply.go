package lockservice

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// apply hands an entry of the log to the lessor.
func (n *Node) apply(e *pb.Entry) {
	if e.GetIndex() != n.state.applied+1 {
		n.s.check.violated("%s applies %d after %d", n.Machine.Name, e.GetIndex(), n.state.applied)
	}
	n.state.applied = e.GetIndex()
	first := n.s.check.applied(n, e)
	if len(e.GetData()) > 0 {
		c, err := protocol.ParseCommand(e.GetData())
		must(err)
		n.command(c, e.GetTerm(), first)
	}
	if n.state.role == raft.StateLeader && e.GetTerm() == n.state.term && !n.Leads() {
		n.promoted()
	}
}

// command carries out a command. The node that applies it first tells of it: it
// is the leader, unless that has just died.
func (n *Node) command(c protocol.Command, term uint64, first bool) {
	l := n.state.lessor
	before := l.Revision()
	effects := l.Step(n.Machine.Mono.Now(), protocol.Applied{Term: term, Command: c})
	if first {
		n.s.given = max(n.s.given, l.Revision())
		n.tell(c, before, effects)
	}
	n.perform(effects)
}

// tell logs what a command has changed.
func (n *Node) tell(c protocol.Command, before int64, effects []protocol.Effect) {
	n.s.Commits++
	l := n.state.lessor
	rev := uint64(l.Revision())
	if c.Op == protocol.CmdCreate && l.Revision() != before {
		e := world.Event{What: "key-created", Name: c.Name, Token: rev, Rev: rev, Peer: c.Holder}
		if n.Leads() {
			e.Deadline = n.deadline(c.Name)
		}
		n.log(e)
	}
	for _, effect := range effects {
		if r, ok := effect.(protocol.Removed); ok {
			n.log(world.Event{What: "key-deleted", Name: r.Key, Token: uint64(r.Token), Rev: uint64(r.Rev), Why: removal(c.Op)})
		}
	}
	if c.Op == protocol.CmdBump {
		n.log(world.Event{What: "revisions-used", Rev: rev, Count: int(c.By)})
	}
}

func removal(op protocol.CommandOp) string {
	switch op {
	case protocol.CmdExpire:
		return "expired"
	case protocol.CmdDelete:
		return "released"
	case protocol.CmdRevoke:
		return "revoked"
	}
	return op.String()
}

// step hands the lessor an event, and does what it asks for.
func (n *Node) step(e protocol.Event) {
	n.perform(n.state.lessor.Step(n.Machine.Mono.Now(), e))
}

func (n *Node) perform(effects []protocol.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case protocol.Propose:
			n.propose(e.Command)
		case protocol.Confirm:
			n.state.reads.waiting = append(n.state.reads.waiting, e.ID)
			n.confirm()
		case protocol.Arm:
			n.state.alarm.Stop()
			n.state.alarm = nil
			if e.At != 0 {
				n.state.alarm = n.Machine.Mono.Alarm(e.At, world.OrderTimer, func() {
					n.step(protocol.Tick{})
					n.pump()
				})
			}
		case protocol.Reply:
			n.reply(e)
		case protocol.Removed:
			n.wakeKey(e.Key, e.Rev, false)
		case protocol.Moved:
			n.wakeKey(e.Key, e.Rev, true)
		}
	}
}

// propose is for a leader of the command's own term alone.
func (n *Node) propose(c protocol.Command) {
	if n.state.role != raft.StateLeader || n.state.term != c.Term {
		return
	}
	n.s.Proposals++
	_ = n.state.raft.Propose(c.Append(nil)) // dropped: whoever waits for it finds out
}

// reads are the questions whether this node still leads. One round is under way
// at a time; what comes meanwhile waits for the next, which begins after it.
type reads struct {
	waiting, round []uint64
	number         uint64 // of the round
	open           bool   // the round has no answer
	index          uint64 // to be applied before the round is answered
}

// add takes raft's answers.
func (r *reads) add(states []raft.ReadState) {
	for _, s := range states {
		if r.open && len(r.round) > 0 && binary.BigEndian.Uint64(s.RequestCtx) == r.number {
			r.open, r.index = false, s.Index
		}
	}
}

// confirm answers the round under way, if it may, and begins the next one.
func (n *Node) confirm() {
	r := &n.state.reads
	if len(r.round) > 0 && !r.open && n.state.applied >= r.index {
		round := r.round
		r.round = nil
		for _, id := range round {
			n.step(protocol.Confirmed{ID: id})
		}
	}
	if len(r.round) > 0 || len(r.waiting) == 0 {
		return
	}
	r.round, r.waiting = slices.Clone(r.waiting), r.waiting[:0]
	n.s.ids++
	r.number, r.open = n.s.ids, true
	n.state.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, r.number))
}
