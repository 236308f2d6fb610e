package explore

import (
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/lockservice"
	"github.com/stint-dev/stint/sim/world"
)

// raft is the lock service on real Raft, in place of the stand-in: slower by
// some ten times, and with every message of an election in the network.
type raft struct {
	s *lockservice.Service
}

func newRaft(w *world.World, p Plan) *raft {
	s := lockservice.New(w, lockservice.Config{
		ElectionTicks: max(2, int(p.Election/(100*time.Millisecond))),
		Lessor:        protocol.LessorConfig{Checkpoint: p.Checkpoint, Without: p.Without},
	})
	for _, m := range s.Machines() {
		m.Disk.Cost = p.Commit
	}
	return &raft{s: s}
}

// Call is actor.Lock's.
func (l *raft) Call(from *world.Machine, r actor.Request, answer func(protocol.Answer)) {
	a := protocol.Ask{
		Op: r.Op, Name: r.Ask.Name, Key: r.Key, Length: r.Ask.Length, Nonce: r.Ask.Nonce, Grant: r.Grant.Grant, Holder: from.Name,
	}
	l.s.Do(from, a, func(reply protocol.Reply) {
		answer(protocol.Answer{Op: reply.Op, Grant: reply.Grant, State: reply.State, List: reply.List, Err: reply.Err})
	})
}

func (l *raft) elect(n int) {
	all := l.s.Nodes()
	node := all[max(n, 0)%len(all)]
	if node.Leads() {
		node = all[(max(n, 0)+1)%len(all)]
	}
	l.s.Campaign(node)
}

// use creates revisions for other jobs' keys.
func (l *raft) use(n int) {
	if leader := l.s.Leader(); leader != nil && leader.Machine.Up() && !leader.Machine.Paused() {
		l.s.Do(leader.Machine, protocol.Ask{Op: protocol.OpBump, By: int64(n)}, func(protocol.Reply) {})
	}
}
