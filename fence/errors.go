package fence

import (
	"errors"
	"fmt"
)

// Sentinels, for errors.Is.
var (
	// ErrStale: the grant's token is below the fence: a later holder was admitted.
	ErrStale = errors.New("stale token")
	// ErrRepeated: the token equals the fence but belongs to another grant.
	ErrRepeated = errors.New("repeated token")
	// ErrNoFence: the resource has no row for the name. A write fails closed.
	ErrNoFence = errors.New("no fence row")
	// ErrNotRaised: the fence row stands below the grant: the holder has not
	// raised it yet. A write never raises.
	ErrNotRaised = errors.New("fence not raised")
	// ErrChanged: the row is no longer as it was seen. Nothing was changed.
	ErrChanged = errors.New("row has changed")
	// ErrUnknown: the request may or may not have been carried out.
	ErrUnknown = errors.New("outcome unknown")
	// ErrCommitted: the claim's earlier transaction, whose outcome was unknown,
	// has turned out to be committed. The new one was not run: it is most likely
	// a repetition. Said once; take it as the earlier one's success.
	ErrCommitted = errors.New("the earlier transaction was committed")
	// ErrSequence: somebody else has committed a transaction under the same
	// grant. A claim has one writer. Nothing was written.
	ErrSequence = errors.New("another writer uses the same grant")
)

// StaleError refuses a token below the fence. Nothing was written. It matches
// ErrStale.
type StaleError struct {
	Name      string
	Presented Token // the token that was refused
	Fence     Token // the fence that refused it
	// AtRaise tells that a *new* holder was refused: the authority hands out
	// tokens below what the store has seen, so it is the authority that is
	// behind, not the holder.
	AtRaise bool
}

func (e *StaleError) Error() string {
	if e.AtRaise {
		return fmt.Sprintf("fence %q: a new holder came with token %d, but the store has already admitted %d: nothing was written. "+
			"Either this holder was paused before its first act and a later one took over, or the authority is behind the store (restored without a bump?); if a fresh attempt fails the same way, raise the authority's counter above %d",
			e.Name, e.Presented, e.Fence, e.Fence)
	}
	return fmt.Sprintf("fence %q: token %d is lower than the fence %d: this holder has lost its lease and a later one has taken over. "+
		"Nothing was written; stop, and discard what is in memory", e.Name, e.Presented, e.Fence)
}

// Is matches ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// RepeatedError refuses a token that equals the fence but comes from another
// grant: one number was handed out twice. Nothing was written. It matches
// ErrRepeated.
type RepeatedError struct {
	Name      string
	Presented Grant
	Admitted  Grant
}

func (e *RepeatedError) Error() string {
	return fmt.Sprintf("fence %q: token %d was already admitted for another grant (%s, now %s): the authority has handed out one number twice. "+
		"Was it restored without a bump? Nothing was written; raise the authority's counter above %d before going on",
		e.Name, e.Presented.Token, e.Admitted, e.Presented, e.Presented.Token)
}

// Is matches ErrRepeated.
func (e *RepeatedError) Is(target error) bool { return target == ErrRepeated }
