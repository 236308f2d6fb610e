package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// SharerRules is a set of the safety rules of a lease that many locks share.
type SharerRules uint8

// The rules of a sharer.
const (
	ShareOwnTime    SharerRules = 1 << iota // a lock that is not renewed is deleted, although the lease lives
	ShareWorkReturn                         // not at its stop time, but a margin later: its work may still be returning
	ShareGuard                              // a create without an answer is settled by a higher guard, not by a read alone
	ShareProof                              // a lock is proven by its key, not by an answered keep-alive
	ShareOneCreate                          // a transaction holds one create of a name
	ShareOneRound                           // one keep-alive is under way, and only its own answer counts
	ShareUnknown                            // a key under the lease that nobody here knows is deleted
)

// SharerConfig is the settings of a shared lease.
type SharerConfig struct {
	Length  time.Duration
	Margin  time.Duration // of its locks, at the least
	Timeout time.Duration // of a transaction, and of a keep-alive
	Without SharerRules   // rules that a simulator leaves out
}

// Check returns the rule that the settings break.
func (c SharerConfig) Check() error {
	switch {
	case c.Length <= 0 || c.Margin < 0 || c.Margin >= c.Length:
		return fmt.Errorf("a shared lease needs a length, and a margin below it: %v, %v", c.Length, c.Margin)
	case c.Timeout <= 0 || 2*c.Timeout > c.Length-c.Margin:
		return fmt.Errorf("time-out %v: two of them have to pass before the stop time, %v after a renewal", c.Timeout, c.Length-c.Margin)
	}
	return nil
}

// ErrNotCreated answers an acquire whose create was definitely not carried out,
// and will not be.
var ErrNotCreated = errors.New("the create was not carried out")

// NewKey is a create in a transaction.
type NewKey struct {
	Name, Nonce, Holder string
}

// KeyResult is what came of a create.
type KeyResult struct {
	Created bool
	Token   fence.Token     // of the key that was created, or was there with this nonce
	Held    authority.State // what was there
	NoLease bool            // the lease is not there
}

// LeaseOpened answers OpenLease.
type LeaseOpened struct {
	Try   int
	Lease int64 // above zero
	Guard int64 // as it stands for this client
}

// KeysCreated answers CreateKeys or SettleKeys. Several tries of one transaction
// may be answered, any of them and at any time; the first answer counts.
type KeysCreated struct {
	Try     int
	Results []KeyResult // in the order of the creates
}

// LeaseKept answers KeepLease.
type LeaseKept struct {
	Round int
	Alive bool
	// Keys are those under the lease, by a linearizable read that was sent with the
	// keep-alive or later. A key's lock is proven by it.
	Keys []LeaseKey
}

// LeaseKey is a key under a lease.
type LeaseKey struct {
	Name  string
	Grant fence.Grant
}

// KeyDropped answers DropKey: the key is surely gone.
type KeyDropped struct {
	Try   int
	Found bool
}

// TurnOver follows Yield, when everything that is due at this instant was heard.
type TurnOver struct{}

func (LeaseOpened) event() {}
func (KeysCreated) event() {}
func (LeaseKept) event()   {}
func (KeyDropped) event()  {}
func (TurnOver) event()    {}

// Yield asks for a TurnOver: what comes until then goes into one transaction, or
// one round.
type Yield struct{}

// OpenLease asks for a lease.
type OpenLease struct{ Try int }

// CreateKeys is one transaction. Each create compares the lease, the guard of this
// client, and that nobody has the name.
type CreateKeys struct {
	Try   int
	Lease int64
	Guard int64
	Keys  []NewKey
}

// SettleKeys raises the client's guard to Guard at the least, in one step, and then
// reads linearizably who has the names.
type SettleKeys struct {
	Try   int
	Guard int64
	Keys  []NewKey
}

// KeepLease is a keep-alive and then a read of the keys under the lease. What a
// former round has not answered is not heard any more: it was another stream.
type KeepLease struct {
	Round int
	Lease int64
}

// DropKey deletes this very key, and no other one of its name.
type DropKey struct {
	Try   int
	Key   LeaseKey
	Lapse bool // nobody has asked for it: its own time is over, or nobody knows it
}

func (Yield) effect()      {}
func (OpenLease) effect()  {}
func (CreateKeys) effect() {}
func (SettleKeys) effect() {}
func (KeepLease) effect()  {}
func (DropKey) effect()    {}

func (e Yield) String() string     { return "yield" }
func (e OpenLease) String() string { return fmt.Sprintf("open lease #%d", e.Try) }
func (e CreateKeys) String() string {
	return fmt.Sprintf("create #%d under lease %d with guard %d: %v", e.Try, e.Lease, e.Guard, e.Keys)
}
func (e SettleKeys) String() string {
	return fmt.Sprintf("settle #%d with guard %d: %v", e.Try, e.Guard, e.Keys)
}
func (e KeepLease) String() string { return fmt.Sprintf("keep lease %d, round %d", e.Lease, e.Round) }
func (e DropKey) String() string {
	s := fmt.Sprintf("drop #%d %q of %v", e.Try, e.Key.Name, e.Key.Grant)
	if e.Lapse {
		s += " by itself"
	}
	return s
}
