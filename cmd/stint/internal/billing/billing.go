// Package billing is the job that stint demo runs: three worker processes
// contend for the right to bill 50,000 invoices, one of them is frozen past its
// lease with a chunk in its buffer, and every invoice is counted afterwards.
//
// worker.go is the part to copy into a job of one's own. Everything else is the
// stage: the store, the processes, the supervisor that freezes one of them, and
// the timeline.
package billing

import (
	"time"
)

// JobName is the name of the lease and of the fence.
const JobName = "billing"

// Config is what one worker process needs to know. It travels as JSON in an
// argument of the hidden command "stint demo billing-worker".
type Config struct {
	Who       string        `json:"who"`              // A, B or C
	Store     string        `json:"store"`            // file of the user's database; a URL travels by itself, see Start
	Prefix    string        `json:"prefix,omitempty"` // of its tables
	Authority string        `json:"authority"`        // URL of the authority
	TTL       time.Duration `json:"ttl"`              // lease length, in nanoseconds
	Pace      time.Duration `json:"pace"`             // how long building one chunk takes
	Unfenced  bool          `json:"unfenced"`         // write without asking the fence
	Hold      Hold          `json:"hold"`             // where to wait for the supervisor
}

// Hold names the step at which a worker announces itself and waits for the word
// "go" on its standard input, so that a fault hits exactly there.
type Hold struct {
	Step  Step `json:"step,omitempty"`
	Chunk int  `json:"chunk,omitempty"` // 0: at the first time, whatever the chunk
}

func (h Hold) at(e Event) bool {
	return h.Step != "" && h.Step == e.Step && (h.Chunk == 0 || h.Chunk == e.Chunk)
}
