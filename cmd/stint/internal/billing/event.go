package billing

import (
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Step is a point in a worker's life. Faults are put there by the tests, and the
// timeline is told from them.
type Step string

// The steps in the order in which one attempt passes them; renewals happen at
// any time between AfterAcquire and BeforeRelease. A step with "before" or
// "after" lies on that side of a request.
const (
	BeforeAcquire Step = "before acquire"
	AfterAcquire  Step = "after acquire"
	BeforeRaise   Step = "before raise"
	AfterRaise    Step = "after raise"
	BeforeRead    Step = "before read"
	AfterRead     Step = "after read" // and before the chunk is built
	Built         Step = "built"      // the chunk is in memory
	Checked       Step = "checked"    // the check of the lease has passed, nothing is sent yet
	Admitted      Step = "admitted"   // in the transaction, the fence has let it in
	HalfSent      Step = "half sent"  // in the transaction, half of the rows are written
	BeforeCommit  Step = "before commit"
	AfterCommit   Step = "after commit"
	BeforeRenew   Step = "before renew"
	AfterRenew    Step = "after renew"
	BeforeFinish  Step = "before finish"
	AfterFinish   Step = "after finish"
	BeforeRelease Step = "before release"
	AfterRelease  Step = "after release"

	Waiting Step = "waiting" // told by the authority that somebody else holds the job
	Retry   Step = "retry"   // an attempt failed and is made again
	Ended   Step = "ended"   // the worker's last word; Err is empty if it saw the job done

	// Told by the supervisor.
	Frozen  Step = "frozen"  // stopped with SIGSTOP
	Woken   Step = "woken"   // continued with SIGCONT
	Exited  Step = "exited"  // the process is gone
	Verdict Step = "verdict" // the invoices are counted

	// Told by the supervisor of the authority's nodes.
	LeaderKilled Step = "leader killed" // with SIGKILL, while B holds
	LeaderNew    Step = "new leader"    // of those that are left
	Survived     Step = "survived"      // B renewed with the new leader, under the same token
)

// Steps are those at which every fault is tried.
var Steps = []Step{
	BeforeAcquire, AfterAcquire, BeforeRaise, AfterRaise, BeforeRead, AfterRead,
	Built, Checked, Admitted, HalfSent, BeforeCommit, AfterCommit,
	BeforeRenew, AfterRenew, BeforeFinish, AfterFinish, BeforeRelease, AfterRelease,
}

// InTransaction tells that a worker at s stands inside a write transaction of
// the store, so that a process frozen there keeps the store from everybody.
func (s Step) InTransaction() bool { return s == Admitted || s == HalfSent || s == BeforeCommit }

// Event is what a worker or the supervisor has to say, one line of JSON each.
type Event struct {
	At    authority.Instant `json:"at"`             // on the host's boot clock
	T     float64           `json:"t"`              // seconds since the start, set by the supervisor
	Who   string            `json:"who"`            //
	Step  Step              `json:"step"`           //
	Token fence.Token       `json:"token"`          // of the worker's lease; 0: none yet
	Fence fence.Token       `json:"fence"`          // the fence after a raise, or the one that refused
	Chunk int               `json:"chunk,omitzero"` // the chunk in hand, or how many are done (after read)
	Rows  int               `json:"rows,omitzero"`  // charges written
	Held  bool              `json:"held,omitzero"`  // the worker waits here for the supervisor
	Late  bool              `json:"late,omitzero"`  // the write of a worker that had lost its lease
	Err   string            `json:"error,omitzero"` // what was refused or failed
	Kind  ErrKind           `json:"kind,omitzero"`  // what the error means
	Note  string            `json:"note,omitzero"`  // for people
	Count *Count            `json:"count,omitzero"` // the verdict's
}

// ErrKind sorts a worker's errors by what they mean for the data.
type ErrKind string

// The kinds of errors.
const (
	KindStale ErrKind = "stale"  // turned away by the fence: nothing was written
	KindLost  ErrKind = "lost"   // the lease is over: the worker stands in line again
	KindOther ErrKind = "failed" // anything else: the worker tries again
)
