package lockservice

import (
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// state is a node's memory.
type state struct {
	raft    *raft.RawNode // nil while down
	lessor  *protocol.Lessor
	alarm   *world.Alarm // the lessor's
	applied uint64
	snapped uint64 // the last snapshot was made there
	busy    bool   // a Ready is being written

	term     uint64
	role     raft.StateType
	idle     int // ticks without a leader's sign
	patience int // campaigns then

	reads   reads
	backs   []way
	watches []kept
}

// start is the beginning of the process: it knows what the disk says.
func (n *Node) start() {
	snap, err := n.disk.Snapshot()
	must(err)
	index := snap.GetMetadata().GetIndex()
	lessor, err := protocol.RestoreLessor(n.s.cfg.Lessor, n.Machine.Mono.Now(), snap.Data)
	must(err)
	rn, err := raft.NewRawNode(&raft.Config{
		ID: n.id, Storage: n.disk, Applied: index,
		ElectionTick: n.s.cfg.ElectionTicks, HeartbeatTick: 1,
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 32,
		PreVote: true, CheckQuorum: true, DisableProposalForwarding: true,
		Logger: quiet{},
	})
	must(err)
	n.state = state{raft: rn, lessor: lessor, applied: index, snapped: index}
	n.look()
	n.patience()
	// Nodes do not tick at the same instant, unless a scenario is written down.
	phase := n.s.cfg.Tick
	if !n.s.cfg.Scripted {
		phase = 1 + time.Duration(n.rng.Int64N(int64(phase)))
	}
	n.Machine.Mono.After(phase, n.tick)
}

// crashed forgets the process.
func (n *Node) crashed() {
	watches := n.state.watches
	n.state = state{}
	for _, w := range watches {
		w.lost(n)
	}
}

// pump takes what raft wants done, until there is nothing more.
func (n *Node) pump() {
	for !n.state.busy && n.state.raft != nil && n.state.raft.HasReady() {
		n.state.busy = true
		n.ready(n.state.raft.Ready())
	}
}

// ready writes a Ready to the disk, and goes on when it is there: messages tell
// only what was synced, and a crash before that leaves nothing of it.
func (n *Node) ready(rd raft.Ready) {
	n.look()
	if len(rd.Entries) > 0 || !raft.IsEmptySnap(rd.Snapshot) || !raft.IsEmptyHardState(rd.HardState) {
		if dropped := n.disk.replaced(rd.Entries); dropped > 0 {
			n.log(world.Event{What: "entries-dropped", Count: dropped, Term: n.state.term, Why: "a leader of a later term has others in their place"})
		}
		n.Machine.Disk.Write(func() { n.disk.save(rd) })
	}
	if !rd.MustSync && raft.IsEmptySnap(rd.Snapshot) {
		n.finish(rd)
		return
	}
	n.Machine.Disk.Sync(func() {
		n.finish(rd)
		n.pump()
	})
}

// finish does what had to wait for the disk.
func (n *Node) finish(rd raft.Ready) {
	if !raft.IsEmptySnap(rd.Snapshot) {
		n.install(rd.Snapshot)
	}
	for _, m := range rd.Messages {
		n.send(m)
	}
	for _, e := range rd.CommittedEntries {
		n.apply(e)
	}
	n.state.reads.add(rd.ReadStates)
	n.confirm()
	n.snapshot()
	n.state.raft.Advance(rd)
	n.state.busy = false
}

// install takes over a snapshot of the leader's: this node was too far behind.
func (n *Node) install(snap *pb.Snapshot) {
	n.s.Installs++
	n.demoted()
	lessor, err := protocol.RestoreLessor(n.s.cfg.Lessor, n.Machine.Mono.Now(), snap.Data)
	must(err)
	n.state.lessor, n.state.applied = lessor, snap.GetMetadata().GetIndex()
	n.state.snapped = n.state.applied
	n.wake() // the watched keys may be gone
}

// snapshot keeps the log short. The write goes to the disk with the next sync.
func (n *Node) snapshot() {
	if n.state.applied < n.state.snapped+n.s.cfg.SnapshotEvery {
		return
	}
	index, data := n.state.applied, n.state.lessor.Marshal()
	n.state.snapped = index
	n.s.Snapshots++
	n.Machine.Disk.Write(func() { n.disk.compact(index, data) })
}

// send carries a message of raft's over the network.
func (n *Node) send(m *pb.Message) {
	if m.GetType() == pb.MsgVoteResp && !m.GetReject() {
		n.state.idle = 0 // it has voted: give the candidate its time
	}
	s, to := n.s, n.s.nodes[m.GetTo()-1]
	generation := s.generation
	s.w.Net.Send(n.Machine, to.Machine, func() {
		if s.generation == generation && to.state.raft != nil {
			to.receive(m)
		}
	})
	if m.GetType() == pb.MsgSnap {
		// What becomes of it shows in the follower's next answer.
		n.state.raft.ReportSnapshot(m.GetTo(), raft.SnapshotFinish)
	}
}

func (n *Node) receive(m *pb.Message) {
	if m.GetTerm() >= n.state.term {
		switch m.GetType() {
		case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
			n.state.idle = 0 // there is a leader
		}
	}
	_ = n.state.raft.Step(m) // an error says that the message is out of place
	n.look()
	n.pump()
}
