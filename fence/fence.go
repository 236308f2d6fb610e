// Package fence is the resource's side of a lease: the check that refuses a
// holder who has lost its lease, in one atomic step with the write.
//
// A resource keeps, for every name, the highest token that it has admitted: the
// fence. A new holder's first act is to Raise it; from then on every write of a
// lower token is refused, whatever the clocks do and however long the old
// holder was paused.
//
// The package imports nothing of stint and no third-party code: a service that
// only checks tokens takes on no dependency.
package fence

import (
	"context"
	"iter"
	"time"
)

// Fence is one resource's record of tokens. All methods are safe for concurrent
// use. Errors are definite unless they match ErrUnknown.
type Fence interface {
	// Raise admits g as the holder of name: its first act, before any read. In
	// one atomic step it refuses a lower token (*StaleError) and an equal token
	// of another grant (*RepeatedError), sets the fence, and marks the row
	// RUNNING by g. The claim's Previous is the row as the last holder left it.
	// Repeating a raise of the same grant is harmless.
	Raise(ctx context.Context, name string, g Grant) (Claim, error)
	// Check says whether the claim's grant is still the fence. It is a hint for
	// reads: the check that protects a write is the one made in its transaction.
	Check(ctx context.Context, c Claim) error
	// Finish sets DONE and takes the row out of the index of claims. The fence
	// stays. Repeating it with the same claim is harmless.
	Finish(ctx context.Context, c Claim) error
	// Claims lists the rows that are RUNNING, from the sparse index.
	Claims(ctx context.Context) iter.Seq2[Row, error]
	// Requeue sets QUEUED and takes the row out of the index, only if owner,
	// nonce and fence are still exactly those seen; otherwise ErrChanged.
	Requeue(ctx context.Context, seen Row) error
}

// State is what a row says about its job.
type State string

// The states of a row. The empty State is a name that was never claimed.
const (
	Running State = "RUNNING" // claimed; in the sparse index
	Queued  State = "QUEUED"  // an orphan that a sweeper gave back
	Done    State = "DONE"    // finished by its holder
)

// Row is what a resource keeps for one name.
type Row struct {
	Name  string
	Fence Token     // the highest token admitted; never falls
	Nonce string    // of the grant that raised it; empty after a break-glass raise
	State State     //
	Owner Token     // who claimed it; zero when never claimed
	Since time.Time // when it was claimed, by the store's wall clock: for people, never compared
	Seq   int64     // transactions committed through the fence; never falls
}

// Claim is a holder's right to write to one name of one resource. It comes from
// Raise, or from a name and a grant that were handed over by the process that
// raised (Claim{Name: n, Grant: g}). Copies share the same transactions.
type Claim struct {
	Name     string
	Grant    Grant
	Previous Row // as the last holder left it; zero where the claim was handed over

	// Seq orders this holder's own transactions, so that one whose COMMIT
	// answer was lost is not done twice. Nil where the claim was handed over:
	// then the first transaction reads it under the lock.
	Seq *Sequence
}
