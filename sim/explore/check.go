package explore

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/sim/world"
)

// A checker knows one promise. It is told every event of the log, and says what
// is broken; it never looks into a machine.
type checker interface {
	// see is told an event.
	see(e world.Event) *Broken
}

// Broken is a promise that a run has broken.
type Broken struct {
	Promise string
	Why     string
	At      time.Duration
	Event   int // its number in the log
}

func (b *Broken) String() string {
	return fmt.Sprintf("%s (at %s): %s", b.Promise, world.Seconds(b.At), b.Why)
}

func broken(e world.Event, promise, format string, args ...any) *Broken {
	return &Broken{Promise: promise, Why: fmt.Sprintf(format, args...), At: e.T, Event: e.N}
}

// The promises.
const (
	PromiseOnce    = "every invoice is charged once"
	PromiseLost    = "no invoice is lost"
	PromiseGrow    = "the tokens of a name grow"
	PromiseOrder   = "accepted writes never go down in token"
	PromiseGrant   = "a token of a store belongs to one grant"
	PromiseRefused = "a refused write changes nothing"
	PromiseOverlap = "no two holders are inside their stop times"
	PromiseSwept   = "a swept row was not held"
	PromiseIndex   = "no claim is outside the index"
	PromiseWake    = "a release wakes at most one waiter"
	PromiseEnd     = "the time goes on"
	PromiseDone    = "after the faults have stopped, the job gets done"
)

// grows checks that each grant of a name has a higher token than every one
// before it. Its events are those of the grantor's own order: "created". That a
// candidate leads is its own belief, which one whose clock stood still may have
// long after its term.
type grows struct {
	last   map[string]uint64
	rights *rights
}

func (c *grows) see(e world.Event) *Broken {
	var token uint64
	switch e.What {
	case "created", "key-created", "item-claimed", "leads":
		token = max(e.Token, e.Epoch)
	}
	if token == 0 || e.What == "leads" && c.rights.stood(e) { // a node that leads has no token
		return nil
	}
	last := c.last[e.Name]
	c.last[e.Name] = token
	if token <= last {
		return broken(e, PromiseGrow, "%s: token %d after %d", e.Name, token, last)
	}
	return nil
}

// order checks that a store never accepts a write of a lower token than before.
type order struct{ last map[string]uint64 }

func (c *order) see(e world.Event) *Broken {
	if e.What != "write" && e.What != "raised" {
		return nil
	}
	last := c.last[e.Name]
	if e.Token < last {
		return broken(e, PromiseOrder, "%s: the store let in %d after %d", e.Name, e.Token, last)
	}
	c.last[e.Name] = e.Token
	return nil
}

// wakes checks that one removal of a key wakes one waiter. Nodes apply it at
// times of their own, so what they tell is mixed.
type wakes struct{ first map[uint64]string } // by revision

func (c *wakes) see(e world.Event) *Broken {
	if e.What != "woken" {
		return nil
	}
	if first := c.first[e.Rev]; first != "" && e.Who != first {
		return broken(e, PromiseWake, "the removal at revision %d woke %s and %s", e.Rev, first, e.Who)
	}
	c.first[e.Rev] = e.Who
	return nil
}
