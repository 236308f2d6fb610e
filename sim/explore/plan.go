package explore

import (
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

// Kind is the cast of a plan.
type Kind string

// The kinds of worlds.
const (
	Billing  Kind = "billing"  // workers bill a job under a lease of the lock service
	Objects  Kind = "objects"  // the same, into an object store that compares ETags
	Ledger   Kind = "ledger"   // the same, into items with conditional transactions
	Forgets  Kind = "forgets"  // the same as billing, over a lock service that may hand out a number twice
	Register Kind = "register" // observers claim an item that compares and swaps
	Election Kind = "election" // candidates stand in line
	Handover Kind = "handover" // one Region's writer takes over from another's
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Billing, Objects, Ledger, Forgets, Register, Election, Handover} }

// Plan is a random world as data. Two runs of one plan are the same run.
type Plan struct {
	Kind    Kind
	Seed    uint64 // of the network's and the disks' draws
	Without protocol.Rules
	Settings
	Faults []Fault // in the order in which they were drawn
}

// Settings are what a plan's world is like without faults. The zero value of a
// time means the actor's own default.
type Settings struct {
	TTL, Margin, Renew, Timeout time.Duration

	Raft    int // 1: the lock service is on real Raft
	Nodes   int // of the lock service; zero: three
	Torn    int // 1: a crash keeps some first part of what was not synced, on Raft
	Workers int // workers, observers, candidates or writers
	Chunks  int // of the job

	Delay      time.Duration // of a message
	Commit     time.Duration // of an entry of the lock service's log
	Election   time.Duration // that a lock service without a leader waits before it elects one
	Checkpoint time.Duration // of leases; zero: none

	RaiseAfter time.Duration // from the grant to the raise
	Build      time.Duration // from the check to the write
	Pace       time.Duration // from one write to the next check
	Beat       time.Duration // renew only if the work beat within this; zero: always
	Sweep      time.Duration // from one sweep to the next; zero: no sweeper
	Again      time.Duration // from an orphan's first sighting to its second, at the least

	Quiet time.Duration // by then every fault has ended
}

// Fault is one thing that goes wrong, or one thing that somebody does. It ends by
// itself, so a list without it is a plan too.
type Fault struct {
	At   time.Duration
	Who  string // a machine, "net" or "lock"
	What string
	For  time.Duration // how long it lasts
	By   time.Duration // of a clock's step, of a restore's age, of a delay
	N    int           // how often, how many, in millionths
	Peer string        // the other machine, or the request
}

// Times are the lease's.
func (s Settings) Times() protocol.Times {
	return protocol.Times{Length: s.TTL, Margin: s.Margin, Renew: s.Renew, Timeout: s.Timeout}.WithDefaults()
}

// names are those who take part, without the nodes of the lock service.
func (p Plan) names() []string {
	all := []string{"A", "B", "C", "D", "E", "F", "G", "H"}
	return all[:min(max(p.Workers, 1), len(all))]
}

// locks reports whether there is a lock service.
func (p Plan) locks() bool {
	switch p.Kind {
	case Billing, Objects, Ledger, Forgets, Election:
		return true
	}
	return false
}

// raftable reports whether the lock service may be on real Raft, which forgets
// nothing.
func (p Plan) raftable() bool { return p.locks() && p.Kind != Forgets }

// nodes are the machines of the lock service.
func (p Plan) nodes() []string {
	if !p.locks() {
		return nil
	}
	n := p.Nodes
	if n == 0 {
		n = 3
	}
	return []string{"n1", "n2", "n3", "n4", "n5"}[:n]
}

// With is the plan with other faults.
func (p Plan) With(faults []Fault) Plan {
	p.Faults = faults
	return p
}
