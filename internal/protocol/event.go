package protocol

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
)

// Instant is a reading of the holder's own clock.
type Instant = authority.Instant

// Op is a kind of request to the authority.
type Op uint8

// The requests.
const (
	OpAcquire Op = iota + 1
	OpRenew
	OpRelease
	OpInspect
	OpWait  // authority.Queuer.Wait
	OpLeave // authority.Queuer.Leave
)

func (o Op) String() string {
	switch o {
	case OpAcquire:
		return "acquire"
	case OpRenew:
		return "renew"
	case OpRelease:
		return "release"
	case OpInspect:
		return "inspect"
	case OpWait:
		return "wait"
	case OpLeave:
		return "leave"
	case OpList:
		return "list"
	case OpGrant:
		return "grant"
	case OpRevoke:
		return "revoke"
	case OpPass:
		return "pass"
	case OpNumber:
		return "number"
	case OpBump:
		return "bump"
	case OpCreate:
		return "create"
	}
	return "nothing"
}

// Event is something that happened to a holder.
type Event interface{ event() }

// Start begins to acquire. It is the first event.
type Start struct{}

// Answer is the end of the request that a Send began: an answer, or an error
// that says why there is none.
type Answer struct {
	Op    Op
	Try   int
	Grant authority.Grant // of acquire and renew
	State authority.State // of inspect
	List  Listed          // of list
	Err   error
}

// ErrNotSent is matched by the error of a request that never left the process:
// the authority knows nothing of it.
var ErrNotSent = errors.New("the request was never sent")

// Lapse says that somebody has looked at the lease after its stop time and found
// it over, although a renewal was already being noted: it is over.
type Lapse struct{}

// Beat is a sign of life of the work.
type Beat struct{ At Instant }

// Cancel ends the waiting or the lease for a reason of the caller's.
type Cancel struct{ Cause error }

// Release gives the lease back: the work has returned.
type Release struct{}

// Tick says that the time of the last Arm has come. Extra ticks are harmless.
type Tick struct{}

// RenewEarly says that renewals of other leases leave now: one that falls due
// within Early goes along.
type RenewEarly struct{}

func (Start) event()      {}
func (Answer) event()     {}
func (Beat) event()       {}
func (Lapse) event()      {}
func (Cancel) event()     {}
func (Release) event()    {}
func (Tick) event()       {}
func (RenewEarly) event() {}

// Order ranks the kinds of events that are due at one instant: what the outside
// said comes before what the clock says, in every driver.
func Order(e Event) int {
	switch e.(type) {
	case Start:
		return 0
	case Beat:
		return 2
	case Cancel:
		return 3
	case Release:
		return 4
	case Tick:
		return 5
	}
	return 1 // what others answered or did
}

// Effect is something that a driver has to do.
type Effect interface{ effect() }

// Send begins a request. Exactly one Answer with the same Op and Try follows,
// at the Deadline at the latest (zero: when it is recalled).
type Send struct {
	Op       Op
	Try      int
	Nonce    string          // of an acquire
	Grant    authority.Grant // of a renew or release; a release of no token is of whatever is there
	Key      string          // of a pass: the heir's
	Deadline Instant
}

// Recall ends the requests of one kind that are under way: their answers come
// at once. One that was not sent yet never is.
type Recall struct{ Op Op }

// Arm asks for a Tick at a time, in place of the one asked for before. Zero asks
// for none.
type Arm struct{ At Instant }

// Granted says that the lease is held, until Stop.
type Granted struct {
	Grant authority.Grant
	Stop  Instant
}

// Kept moves the stop time; it only ever grows.
type Kept struct{ Stop Instant }

// Starved says that a renewal was left out because the work gave no sign of
// life; the next Beat is wanted at once.
type Starved struct{}

// Waiting says that the name is held by another, and the holder goes on waiting.
type Waiting struct{ Held *authority.HeldError }

// Trouble says that a request had no definite answer, and will be tried again.
type Trouble struct {
	Op  Op
	Err error
}

// Ended says that the acquire has failed or the lease is over. It comes once.
type Ended struct{ End End }

// Settled answers Release. It comes once.
type Settled struct{ Err error }

// Quit says that nothing is left to do; the driver forgets the machine.
type Quit struct{}

func (Send) effect()    {}
func (Recall) effect()  {}
func (Arm) effect()     {}
func (Granted) effect() {}
func (Kept) effect()    {}
func (Starved) effect() {}
func (Waiting) effect() {}
func (Trouble) effect() {}
func (Ended) effect()   {}
func (Settled) effect() {}
func (Quit) effect()    {}

// The string forms are the lines of a transcript.

func (e Send) String() string {
	s := fmt.Sprintf("send %v #%d", e.Op, e.Try)
	switch e.Op {
	case OpAcquire:
		s += " nonce " + e.Nonce
	case OpRenew, OpRelease, OpPass, OpNumber:
		if e.Grant.IsZero() {
			s += " of whatever is there"
		} else {
			s += " of " + e.Grant.Grant.String()
		}
	}
	if e.Key != "" {
		s += " to " + e.Key
	}
	if e.Deadline != 0 {
		s += fmt.Sprintf(" until %v", e.Deadline)
	}
	return s
}

func (e Recall) String() string  { return fmt.Sprintf("recall %v", e.Op) }
func (e Starved) String() string { return "starved: the work gives no sign of life" }
func (e Quit) String() string    { return "quit" }
func (e Kept) String() string    { return fmt.Sprintf("kept, stop %v", e.Stop) }
func (e Waiting) String() string { return "waiting: " + e.Held.Error() }
func (e Ended) String() string   { return "ended: " + e.End.String() }
func (e Trouble) String() string { return fmt.Sprintf("trouble: %v: %v", e.Op, e.Err) }

func (e Arm) String() string {
	if e.At == 0 {
		return "disarm"
	}
	return fmt.Sprintf("arm %v", e.At)
}

func (e Granted) String() string {
	return fmt.Sprintf("granted %v, stop %v", e.Grant.Grant, e.Stop)
}

func (e Settled) String() string {
	if e.Err != nil {
		return "settled: " + e.Err.Error()
	}
	return "settled"
}
