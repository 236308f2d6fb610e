package protocol

import (
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Reason says why an acquire failed or a lease is over.
type Reason uint8

// Reasons of a lease that was held.
const (
	Released    Reason = iota + 1 // its holder gave it back
	Expired                       // no renewal succeeded in time; who holds now is not known
	TakenOver                     // the authority says that it is not held any more
	WorkStopped                   // the work gave no sign of life, so it was not renewed
	Cancelled                     // the caller's context ended
)

// Reasons of an acquire that failed.
const (
	Refused  Reason = iota + 16 // held by another
	WaitOver                    // held by another for as long as the caller would wait
	Rejected                    // the authority cannot carry out the request
	NoAnswer                    // no definite answer; what may have been granted is given back
	TooLate                     // granted after its own stop time, and given back
)

func (r Reason) String() string {
	switch r {
	case Released:
		return "released"
	case Expired:
		return "expired"
	case TakenOver:
		return "taken over"
	case WorkStopped:
		return "work stopped"
	case Cancelled:
		return "cancelled"
	case Refused:
		return "refused"
	case WaitOver:
		return "wait over"
	case Rejected:
		return "rejected"
	case NoAnswer:
		return "no answer"
	case TooLate:
		return "too late"
	}
	return "not ended"
}

// End is how an acquire or a lease ended.
type End struct {
	Reason Reason
	By     fence.Token // the successor's token, where it is known
	Err    error       // what the authority or the caller said last
	// Last is what the authority failed with when the caller had enough of
	// waiting for it (Cancelled): nil if it was answering. It may match what Err
	// does not, and is for people first.
	Last error
}

func (e End) String() string {
	s := e.Reason.String()
	if e.By != 0 {
		s += fmt.Sprintf(" with token %d", e.By)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}
