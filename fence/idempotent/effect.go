package idempotent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
)

// State is how far an effect is, as its record says. The values are stored.
type State string

// The states.
const (
	None    State = State(protocol.NotBegun)   // there is no record
	Pending State = State(protocol.PayPending) // the remote side was asked, or was about to be; whether it has done it is not known
	Done    State = State(protocol.PayDone)    // it has done it
	Unknown State = State(protocol.PayUnknown) // left to a person
)

// Record is what is kept of one effect.
type Record struct {
	State  State
	Grant  fence.Grant // under which it was written
	Nonce  string      // of the try that wrote it
	Result string      // what the remote side has answered
}

// Answer is what a Lookup says.
type Answer int

// The answers. The zero value is the careful one.
const (
	Unclear   Answer = iota // it cannot be told
	Happened                // the effect has happened
	NeverWill               // it has not happened, and cannot any more, even if an earlier call is still on its way
)

// Effect is one effect at a remote side.
type Effect struct {
	// Key names the effect: the same for every holder that may try it, and no other
	// effect's. It is a valid name (fence.CheckName).
	Key string
	// Call asks the remote side, with the key where it takes one. It is given until
	// CallTimeout, even if the lease ends meanwhile: what was asked for is not taken
	// back by not listening to the answer. It returns what is to be kept with the
	// record. An error that matches ErrNotDone says that the effect surely has not
	// happened and will not; after any other, it perhaps has.
	Call func(ctx context.Context, key string) (result string, err error)
	// TakesKeys says that the remote side does one effect for each key, however
	// often and however late it is asked. Look up for how long it remembers keys:
	// within that time a successor must have come.
	TakesKeys bool
	// Lookup, for a remote side without keys, tells whether an effect happened whose
	// call was begun by somebody who cannot be asked any more. Beware of NeverWill:
	// an earlier holder may have been paused right before its call, and make it
	// after the lookup. It is right where the remote side was told to refuse it.
	Lookup func(ctx context.Context, key string) (a Answer, result string, err error)
	// Timeout bounds one request to the store, and is the pace of repetitions.
	// Default 1.5 s. CallTimeout bounds Call and Lookup. Default 10 s.
	Timeout, CallTimeout time.Duration
}

// Outcome is what became of an effect.
type Outcome struct {
	State  State
	Result string // of one that is Done
	// Before says that it was settled before: nothing was done now.
	Before bool
}

// Errors of Do, for errors.Is. It returns the fence's own as well: fence.ErrStale
// and the others.
var (
	// ErrNotDone: the remote side has refused. Call returns an error that matches it
	// then: the effect has surely not happened, and will not by this call.
	ErrNotDone = protocol.ErrNotDone
	// ErrLeaseOver: nothing more was begun by this try, because the lease was over.
	ErrLeaseOver = protocol.ErrLeaseOver
	// ErrUnrecorded: the effect is done, but its record could not be written: it is
	// PENDING still, and the next holder will not know.
	ErrUnrecorded = errors.New("the effect is done, but its record does not say so")
)

func (e Effect) check() error {
	var bad []error
	if err := fence.CheckName(e.Key); err != nil {
		bad = append(bad, fmt.Errorf("key: %w", err))
	}
	if e.Call == nil {
		bad = append(bad, errors.New("there is no Call"))
	}
	if e.TakesKeys && e.Lookup != nil {
		bad = append(bad, errors.New("both TakesKeys and Lookup are set, and exclude each other: who takes keys is simply asked again"))
	}
	if e.Timeout < 0 || e.CallTimeout < 0 {
		bad = append(bad, fmt.Errorf("time-outs %v and %v are not negative", e.Timeout, e.CallTimeout))
	}
	if len(bad) > 0 {
		return fmt.Errorf("idempotent: effect: %w", errors.Join(bad...))
	}
	return nil
}

func (e Effect) withDefaults() Effect {
	if e.Timeout == 0 {
		e.Timeout = 1500 * time.Millisecond
	}
	if e.CallTimeout == 0 {
		e.CallTimeout = 10 * time.Second
	}
	return e
}

// verdict turns the machine's end into the caller's.
func verdict(key string, c protocol.Closed) (Outcome, error) {
	out := Outcome{State: State(c.State), Result: c.Result, Before: c.Before}
	switch {
	case c.State == protocol.PayDone && c.Err != nil:
		return out, fmt.Errorf("idempotent: %q: %w: %w", key, ErrUnrecorded, c.Err)
	case c.State == protocol.PayDone:
		return out, nil
	case c.State == protocol.NotBegun && !errors.Is(c.Err, ErrNotDone):
		return out, fmt.Errorf("idempotent: %q: this try has not begun it: %w", key, c.Err)
	case c.State == protocol.NotBegun:
		return out, fmt.Errorf("idempotent: %q: %w", key, c.Err)
	case c.State == protocol.PayUnknown && c.Err == nil:
		return out, fmt.Errorf("idempotent: %q: %w: an earlier try has left it to a person, who settles it with Resolve", key, fence.ErrUnknown)
	case c.State == protocol.PayUnknown:
		return out, fmt.Errorf("idempotent: %q: whether it happened has to be found out by a person, who settles it with Resolve: %w", key, c.Err)
	}
	return out, fmt.Errorf("idempotent: %q: %w: it is %s, and may have happened; a later try goes on from here: %w", key, fence.ErrUnknown, c.State, c.Err)
}

// notAsked ends a Call that was not made.
type notAsked struct{ why error }

func (e notAsked) Error() string {
	return fmt.Sprintf("%v; the remote side was not asked: %v", ErrLeaseOver, e.why)
}
func (e notAsked) Unwrap() []error { return []error{ErrLeaseOver, e.why} }

// Is tells the machine that the call was not carried out.
func (e notAsked) Is(target error) bool { return target == ErrNotDone }
