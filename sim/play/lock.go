package play

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/lockservice"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// lockService is a lock service as a scenario handles it.
type lockService interface {
	actor.Lock
	// Do is a step of the scenario's.
	Do(what string, args []string)
	// Held says whether a name is held, for the log: nobody in the world sees it.
	Held(name string) bool
	// Describe is who holds a name, for a snapshot.
	Describe(name string) string
}

func (st *stage) addLock() {
	p := st.s.Lock
	switch p.Kind {
	case "none", "":
		st.Lock = &actor.NoLock{}
	case "item":
		st.item = actor.NewItem(&st.Stage, st.store, Job)
		st.item.Contents = p.Text("versions") == "contents"
	case "flag":
		st.flag = actor.NewFlag(&st.Stage, st.w.Machine("flag"))
	case "raft":
		st.lock = newRaft(st, p)
	case "cache":
		st.lock = newCache(st, p)
	case "kv":
		st.lock = newShared(st, p)
	case "redlock":
		st.lock = newMasters(st, p)
	}
	if st.lock != nil {
		st.Lock = st.lock
	}
}

// raft is the lock service on raft.
type raft struct {
	st     *stage
	s      *lockservice.Service
	backup []byte
}

func newRaft(st *stage, p script.Part) *raft {
	s := lockservice.New(st.w, lockservice.Config{
		Nodes: p.Int("nodes", 3), Scripted: p.Text("elections") == "no",
		ElectionTicks: int(p.Duration("election", time.Second) / (100 * time.Millisecond)),
		Lessor: protocol.LessorConfig{
			Without: st.s.Without, Extra: p.Duration("extra", 0), Checkpoint: p.Duration("checkpoints", 0),
		},
	})
	s.Settle() // before the network and the disks take any time
	for _, m := range s.Machines() {
		m.Disk.Cost = p.Duration("fsync", 0)
	}
	l := &raft{st: st, s: s}
	st.w.Log.Watch(l.follow)
	return l
}

// follow notes what a new leader makes of the leases that it finds.
func (l *raft) follow(e world.Event) {
	if e.What != "leads" || e.Term == 0 {
		return
	}
	l.st.w.After(0, world.OrderSelf, func() {
		for _, n := range l.s.Nodes() {
			st := world.Event{What: "lease-restarts", Name: Job, Term: e.Term}
			if n.Machine.Name != e.Who || !n.Leads() || !n.Lessor().State(Job).Held {
				continue
			}
			st.Token, st.Deadline = uint64(n.Lessor().State(Job).Grant.Token), l.s.Deadline(Job)
			l.st.log(e.Who, st)
		}
	})
}

// ask is a request as the lessor knows it.
func ask(from *world.Machine, r actor.Request) protocol.Ask {
	a := protocol.Ask{
		Op: r.Op, Name: r.Ask.Name, Key: r.Key, Length: r.Ask.Length, Nonce: r.Ask.Nonce, Grant: r.Grant.Grant, Holder: from.Name,
	}
	if r.Op == protocol.OpList {
		a.Name = r.Prefix + "/"
	}
	return a
}

// Call is Lock's.
func (l *raft) Call(from *world.Machine, r actor.Request, answer func(protocol.Answer)) {
	l.s.Do(from, ask(from, r), func(reply protocol.Reply) {
		answer(protocol.Answer{Op: reply.Op, Grant: reply.Grant, State: reply.State, List: reply.List, Err: reply.Err})
	})
}

// Watch is Watcher's.
func (l *raft) Watch(from *world.Machine, w protocol.Watch, woken func()) { l.s.Watch(from, w, woken) }

// Do is lockService's. What others do comes over no network: it is not what the
// scenario is about.
func (l *raft) Do(what string, args []string) {
	switch what {
	case "use":
		n, _ := strconv.Atoi(args[0])
		l.operator(protocol.Ask{Op: protocol.OpBump, By: int64(n)})
	case "break":
		l.st.log("lock", world.Event{What: "break-glass", Name: args[0], Why: "an operator deletes the key"})
		l.operator(protocol.Ask{Op: protocol.OpRelease, Name: args[0]})
	case "lead":
		for _, n := range l.s.Nodes() {
			if n.Machine.Name == args[0] {
				l.s.Campaign(n)
			}
		}
	case "save":
		l.backup = l.s.Backup()
		l.st.log("lock", world.Event{What: "saved", Rev: uint64(l.s.Revision())})
	case "restore":
		n, _ := strconv.Atoi(args[0])
		if err := l.s.Restore(l.backup, int64(n)); err != nil {
			l.st.log("lock", world.Event{What: "not-restored", Why: err.Error()})
		}
	}
}

// operator sends a request from the leader's own machine.
func (l *raft) operator(a protocol.Ask) {
	from := l.s.Nodes()[0].Machine
	if n := l.s.Leader(); n != nil {
		from = n.Machine
	}
	a.Length = authority.MaxLength
	l.s.Do(from, a, func(protocol.Reply) {})
}

// Held is lockService's.
func (l *raft) Held(name string) bool {
	for _, n := range l.s.Nodes() {
		if n.Leads() && n.Lessor().State(name).Held {
			return true
		}
	}
	return false
}

// Describe is lockService's.
func (l *raft) Describe(name string) string {
	n := l.s.Leader()
	if n == nil {
		return fmt.Sprintf("lock: rev %d, nobody leads", l.s.Revision())
	}
	head := fmt.Sprintf("lock: %s leads in term %d, rev %d, ", n.Machine.Name, n.Term(), l.s.Revision())
	st := n.Lessor().State(name)
	if !st.Held {
		return head + "free"
	}
	return head + fmt.Sprintf("held with %d, deadline %s", st.Grant.Token, seconds(l.s.Deadline(name)))
}

// seconds is a time for people: to the millisecond.
func seconds(d time.Duration) string { return world.Seconds(d.Round(time.Millisecond)) }
