package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// LessorConfig is one lock service's settings; every node has the same.
type LessorConfig struct {
	Extra      time.Duration // added to every lease on promotion (etcd adds its election timeout)
	Retry      time.Duration // an expiry that was not applied is proposed again after this; zero: 1 s
	Checkpoint time.Duration // how often the leader writes down what is left of each lease; zero: never
	Without    Rules         // full-length, renewal-clears-checkpoint, bump, floor
}

// Lessor is the grantor's side of the lock service, on one node: keys that are
// attached to leases, and one revision counter for all of them. What the log
// says is the same on every node; deadlines are in the leader's memory only.
// Make one with NewLessor or RestoreLessor. It is not safe for concurrent use.
type Lessor struct {
	cfg LessorConfig
	now Instant // of the event in hand
	out []Effect

	// What the log says.
	rev    int64
	leases []lease // in the order of their ids
	keys   []key   // in the order of their names
	floors []floor // in the order of their names

	// The leader's memory.
	term       uint64 // 0: does not lead
	armed      Instant
	due        Instant // no deadline is earlier; zero: there is none
	checkpoint Instant // the next
	written    int64   // checkpoints proposed
	pending    []pending
}

// pending is a request that is answered when its command is applied, or when a
// majority has confirmed that this node leads.
type pending struct {
	Ask
	kept bool // of a renewal: the deadline was moved when it arrived
}

// lease is an entry of the lease table.
type lease struct {
	id     uint64
	length time.Duration
	left   time.Duration // of the last checkpoint; zero: none
	key    string        // the only one of a lease that was made with its key; empty: any number

	deadline      Instant // this node's memory
	expiring      bool    // proposed to expire, and to be proposed again at the deadline
	written, seen int64   // the last checkpoint proposed, and applied
}

// key is an entry of the key table.
type key struct {
	name   string
	grant  fence.Grant // its token is the revision that created it: its place in line
	token  fence.Token // a later one, of a grant out of order; zero: none
	ahead  bool        // put before all others
	lease  uint64
	holder string
}

// floor is the highest token that was given out of order in an election.
type floor struct {
	election string
	token    fence.Token
}

// NewLessor makes the lessor of an empty log.
func NewLessor(cfg LessorConfig) *Lessor {
	if cfg.Retry == 0 {
		cfg.Retry = time.Second
	}
	return &Lessor{cfg: cfg}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (l *Lessor) Step(now Instant, ev Event) []Effect {
	l.now = now
	switch ev := ev.(type) {
	case Ask:
		l.ask(ev)
	case Applied:
		l.applied(ev)
	case Promoted:
		l.promoted(ev.Term)
	case Demoted:
		l.demoted()
	case Confirmed:
		l.confirmed(ev.ID)
	case Tick:
		l.armed = 0
		l.ticked()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	l.arm()
	out := l.out
	l.out = nil
	return out
}

func (l *Lessor) emit(e Effect) { l.out = append(l.out, e) }

// arm asks for the tick of the earliest deadline. Renewals only move deadlines
// on, so a tick that comes too early finds nothing and asks for a later one:
// that costs less than to sort ten thousand leases at each renewal.
func (l *Lessor) arm() {
	at := l.due
	if l.term == 0 {
		at = 0
	} else if l.cfg.Checkpoint > 0 && len(l.leases) > 0 && (at == 0 || l.checkpoint < at) {
		at = l.checkpoint
	}
	if at != l.armed {
		l.armed = at
		l.emit(Arm{at})
	}
}

// Leads reports whether this node believes that it leads.
func (l *Lessor) Leads() bool { return l.term != 0 }

// Revision is the counter that all keys share.
func (l *Lessor) Revision() int64 { return l.rev }

// Deadline is when this node lets go of a name's lease, by its own clock; ok
// tells that the name is held.
func (l *Lessor) Deadline(name string) (at Instant, ok bool) {
	k := l.key(name)
	if k == nil {
		return 0, false
	}
	return l.lease(k.lease).deadline, true
}

// State is what this node knows of a name: not linearizable, unlike an answer.
func (l *Lessor) State(name string) authority.State {
	s := authority.State{Name: name}
	if k := l.key(name); k != nil {
		ls := l.lease(k.lease)
		s.Held, s.Grant, s.Holder, s.Length = true, k.grant, k.holder, ls.length
		if l.term != 0 {
			s.Left = max(0, ls.deadline.Sub(l.now))
		}
	}
	return s
}

func (l *Lessor) lease(id uint64) *lease {
	i, ok := slices.BinarySearchFunc(l.leases, id, func(e lease, id uint64) int { return cmp.Compare(e.id, id) })
	if !ok {
		return nil
	}
	return &l.leases[i]
}

func (l *Lessor) key(name string) *key {
	i, ok := slices.BinarySearchFunc(l.keys, name, func(e key, name string) int { return cmp.Compare(e.name, name) })
	if !ok {
		return nil
	}
	return &l.keys[i]
}

// Floor is the highest token that was given out of order in the election that a
// key stands in, as this node knows it; zero: none was.
func (l *Lessor) Floor(key string) fence.Token { return l.floor(election(key)) }

func (l *Lessor) floor(election string) fence.Token {
	for _, f := range l.floors {
		if f.election == election {
			return f.token
		}
	}
	return 0
}
