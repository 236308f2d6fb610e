package protocol

import (
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Place is one key in the line of an election.
type Place struct {
	Key   string
	Grant fence.Grant // of the key; its token is the place in line
	Token fence.Token // what it leads with: the place, or a later one
	Ahead bool        // put before all others, out of order
}

// Listed is a linearizable look at the line, in its order. It is the answer to a
// list.
type Listed struct {
	Rev   int64       // of the look
	Floor fence.Token // the highest token that was given out of order
	Keys  []Place
}

// Woken says that the watched key is gone, that the candidate's own key was put
// ahead, or that the watch was lost.
type Woken struct{}

// Pass ends the term in favour of an heir who stands in the line. It comes in
// place of Release: the work has returned.
type Pass struct{ Key string }

func (Woken) event() {}
func (Pass) event()  {}

// Watch asks for a Woken once Key is not any more the one that Token created,
// from the revision From on: if that has happened already, at once. It stands in
// place of the Watch before it.
type Watch struct {
	Key   string
	Token fence.Token
	From  int64
}

// Lead says that the candidate leads, until the stop time of its holder (see
// Kept and Ended). The grant's token is the epoch.
type Lead struct {
	Grant fence.Grant
	Stop  Instant
}

func (Watch) effect() {}
func (Lead) effect()  {}

func (e Watch) String() string { return fmt.Sprintf("watch %q of %d from %d", e.Key, e.Token, e.From) }
func (e Lead) String() string  { return fmt.Sprintf("lead with %v, stop %v", e.Grant, e.Stop) }
