package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// PayState is how far an effect is, as its record says. The values are stored.
type PayState string

// The states of an effect.
const (
	NotBegun   PayState = ""        // there is no record
	PayPending PayState = "PENDING" // the remote side was asked, or was about to be: whether it has done it is not known
	PayDone    PayState = "DONE"    // the remote side has answered
	PayUnknown PayState = "UNKNOWN" // left to a person
)

// Receipt is the idempotency record of one effect, in a store with a fence.
type Receipt struct {
	State  PayState
	Grant  fence.Grant // whose it is
	Nonce  string      // of the machine that wrote it: one grant may have several
	Result string      // what the remote side has answered; the machine does not read it
}

// ErrNotDone is matched by the error of a Call that was surely not carried out,
// and surely will not be. Every other error means "perhaps".
var ErrNotDone = errors.New("the remote side has not done it, and will not")

// ErrLeaseOver is matched by the error of an effect that was left alone because
// the lease was over, or about to be.
var ErrLeaseOver = errors.New("the lease is over: nothing more is begun under it")

// Extended says that the lease is held until Stop, by the clock of Step. A stop
// time never moves back.
type Extended struct{ Stop Instant }

// Fetched answers Fetch.
type Fetched struct {
	Try     int
	Receipt Receipt // the zero value: there is none
	Err     error
}

// Noted answers Note. Errors that match ErrConflict, fence.ErrStale,
// fence.ErrRepeated, fence.ErrNoFence or fence.ErrNotRaised are definite.
type Noted struct {
	Try int
	Err error
}

// Called answers Call. An error that matches ErrNotDone is definite.
type Called struct {
	Try    int
	Result string
	Err    error
}

func (Extended) event() {}
func (Fetched) event()  {}
func (Noted) event()    {}
func (Called) event()   {}

// Fetch asks for a consistent read of the record.
type Fetch struct {
	Try      int
	Key      string
	Deadline Instant
}

// Note writes Receipt, in one atomic step with two checks: the fence admits its
// grant, and the record still is If (the zero value: there is none). A record
// that already is Receipt counts as written. A Receipt that is zero deletes it.
type Note struct {
	Try      int
	Key      string
	If       Receipt
	Receipt  Receipt
	Grant    fence.Grant
	Deadline Instant
}

// Call asks the remote side, with the key where it takes one. The driver checks
// the lease once more right before.
type Call struct {
	Try      int
	Key      string
	Deadline Instant
}

// Found says what a PENDING record means that this machine did not write:
// PENDING (the remote side is asked again), UNKNOWN or DONE.
type Found struct {
	Receipt Receipt
	Means   PayState
}

// Closed is the end. It comes once.
type Closed struct {
	State  PayState // of the effect, as far as it is known; its record may be behind
	Result string   // of one that is DONE
	Before bool     // it was settled before: nothing was done now
	Err    error    // why it is not DONE, or why its record does not say so
}

func (Fetch) effect()  {}
func (Note) effect()   {}
func (Call) effect()   {}
func (Found) effect()  {}
func (Closed) effect() {}

func (r Receipt) String() string {
	if r.State == NotBegun {
		return "nothing"
	}
	return fmt.Sprintf("%s by %v as %s", r.State, r.Grant, r.Nonce)
}

func (e Fetch) String() string {
	return fmt.Sprintf("fetch #%d %q until %v", e.Try, e.Key, e.Deadline)
}
func (e Note) String() string {
	return fmt.Sprintf("note #%d %q: %v, if it is %v, until %v", e.Try, e.Key, e.Receipt, e.If, e.Deadline)
}
func (e Call) String() string { return fmt.Sprintf("call #%d %q until %v", e.Try, e.Key, e.Deadline) }
func (e Found) String() string {
	means := map[PayState]string{PayPending: "ask again with the key", PayUnknown: "unknown", PayDone: "done"}[e.Means]
	return fmt.Sprintf("found %v: %s", e.Receipt, means)
}

func (e Closed) String() string {
	s := "closed: not begun"
	if e.State != NotBegun {
		s = "closed: " + string(e.State)
	}
	if e.Before {
		s += " before"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// PayerRules is a set of a payer's safety rules.
type PayerRules uint8

// The rules of a payer.
const (
	// PayTakesKey: PENDING of another is repeated only where the remote side
	// takes the same key.
	PayTakesKey PayerRules = 1 << iota
	// PayAnswered: DONE is noted after an answer of the remote side only; without
	// it, PENDING of another is taken for DONE.
	PayAnswered
)

// PayerConfig is what one effect needs.
type PayerConfig struct {
	Key   string      // of the effect: the same for every holder that may try it, and no other effect's
	Grant fence.Grant // under which it is done; its fence is raised
	Stop  Instant     // until then the lease is held; Extended moves it
	Nonce string      // of this machine: no other one of this key has it
	// TakesKeys says that the remote side does one effect for each key, however
	// often and however late it is asked.
	TakesKeys   bool
	Timeout     time.Duration // of a request to the store; zero: 1.5 s
	CallTimeout time.Duration // of a Call; zero: Timeout
	Without     PayerRules    // rules that a simulator leaves out
}

func (c PayerConfig) withDefaults() PayerConfig {
	if c.Timeout == 0 {
		c.Timeout = 1500 * time.Millisecond
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = c.Timeout
	}
	return c
}

// Check returns the rule that the settings break.
func (c PayerConfig) Check() error {
	c = c.withDefaults()
	switch {
	case c.Key == "" || c.Nonce == "":
		return errors.New("an effect needs a key that every holder gives it, and a nonce that no other try has")
	case c.Grant.IsZero():
		return errors.New("an effect needs the grant under which it is done")
	case c.Timeout < 0 || c.CallTimeout < 0:
		return fmt.Errorf("time-outs %v and %v: they are not negative", c.Timeout, c.CallTimeout)
	}
	return nil
}
