package explore

import (
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/lockservice"
	"github.com/stint-dev/stint/sim/world"
)

// raft is the lock service on real Raft, in place of the stand-in: slower by
// some ten times, and with every message of an election in the network.
type raft struct {
	s *lockservice.Service
	// waits are the keys that the waiters had in their elections when they began
	// to watch. They are looked up, never ranged over.
	waits map[*world.Machine]fence.Grant
	// OnWake is the stand-in's.
	OnWake func(who, key string, rev int64)
}

func newRaft(w *world.World, p Plan) *raft {
	s := lockservice.New(w, lockservice.Config{
		Nodes:         p.Nodes,
		ElectionTicks: max(2, int(p.Election/(100*time.Millisecond))),
		Lessor:        protocol.LessorConfig{Checkpoint: p.Checkpoint, Without: p.Without},
	})
	for _, m := range s.Machines() {
		m.Disk.Cost, m.Disk.Jitter, m.Disk.Torn = p.Commit, p.Commit, p.Torn == 1
	}
	l := &raft{s: s, waits: map[*world.Machine]fence.Grant{}}
	s.OnWake = l.woken
	return l
}

// Call is actor.Lock's.
func (l *raft) Call(from *world.Machine, r actor.Request, answer func(protocol.Answer)) {
	a := protocol.Ask{
		Op: r.Op, Name: r.Ask.Name, Key: r.Key, Length: r.Ask.Length, Nonce: r.Ask.Nonce, Grant: r.Grant.Grant, Holder: from.Name,
	}
	if r.Op == protocol.OpList {
		a.Name = r.Prefix + "/"
	}
	l.s.Do(from, a, func(reply protocol.Reply) {
		answer(protocol.Answer{Op: reply.Op, Grant: reply.Grant, State: reply.State, List: reply.List, Err: reply.Err})
	})
}

// Watch is actor.Watcher's.
func (l *raft) Watch(from *world.Machine, w protocol.Watch, woken func()) {
	l.waits[from] = l.s.State(own(w.Key, from)).Grant
	l.s.Watch(from, w, woken)
}

// own is the key of a machine in the election of another key.
func own(key string, m *world.Machine) string {
	return key[:strings.LastIndexByte(key, '/')+1] + m.Name
}

// woken tells of a waiter that a removal wakes. Who has lost the key that it
// waited with is no waiter any more, though it may not know it yet.
func (l *raft) woken(at *lockservice.Node, who *world.Machine, key string, rev int64) {
	if had := l.waits[who]; l.OnWake != nil && !had.IsZero() && at.Lessor().State(own(key, who)).Grant == had {
		l.OnWake(who.Name, key, rev)
	}
}

func (l *raft) elect(n int) {
	all := l.s.Nodes()
	node := all[max(n, 0)%len(all)]
	if node.Leads() {
		node = all[(max(n, 0)+1)%len(all)]
	}
	l.s.Transfer(node)
}

// use creates revisions for other jobs' keys.
func (l *raft) use(n int) {
	if leader := l.s.Leader(); leader != nil && leader.Machine.Up() && !leader.Machine.Paused() {
		l.s.Do(leader.Machine, protocol.Ask{Op: protocol.OpBump, By: int64(n)}, func(protocol.Reply) {})
	}
}
