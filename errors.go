package stint

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
)

// Errors of Acquire, TryAcquire and Do, for errors.Is.
var (
	// ErrHeld: somebody else holds the name. The error is (or wraps) an
	// *authority.HeldError, which says who.
	ErrHeld = authority.ErrHeld
	// ErrNoAnswer: the authority gave no definite answer. What it may have
	// granted is being given back.
	ErrNoAnswer = errors.New("no definite answer from the authority")
	// ErrTooLate: the grant arrived after its own stop time and was given back.
	ErrTooLate = errors.New("granted too late to be used")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("client is closed")
)

// Reasons for which a lease is over, for errors.Is on Lease.Err, on the cause of
// Lease.Context, and on what Do returns.
var (
	// ErrReleased: its holder gave it back.
	ErrReleased = errors.New("released")
	// ErrExpired: no renewal succeeded before the stop time. Whether somebody
	// else holds the name by now is not known.
	ErrExpired = errors.New("expired")
	// ErrTakenOver: the authority says that the lease is not held any more.
	ErrTakenOver = errors.New("taken over")
	// ErrWorkStopped: the work gave no sign of life (Options.BeatWithin), so the
	// lease was not renewed.
	ErrWorkStopped = errors.New("work stopped")
	// ErrCancelled: the context that was given to Acquire ended.
	ErrCancelled = errors.New("cancelled")
)

// LostError says that a lease is over, and why. It matches the sentinel of its
// reason (ErrExpired, ErrTakenOver, …) and what the authority or the context
// said.
type LostError struct {
	Name   string
	Token  fence.Token
	Reason error       // one of ErrReleased, ErrExpired, ErrTakenOver, ErrWorkStopped, ErrCancelled
	By     fence.Token // the successor's token, where it is known
	Err    error       // the last thing that the authority or the context said; may be nil
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lease %q with token %d is over: ", e.Name, e.Token)
	switch {
	case e.Reason == ErrExpired && e.Err == nil:
		s += "its stop time passed before it was renewed (was the process paused?)"
	case e.Reason == ErrExpired:
		s += "no renewal succeeded before its stop time"
	case e.Reason == ErrTakenOver && e.By != 0:
		s += fmt.Sprintf("token %d took over", e.By)
	case e.Reason == ErrTakenOver:
		s += "the authority does not hold it any more"
	case e.Reason == ErrWorkStopped:
		s += "the work gave no sign of life, so it was not renewed"
	default:
		s += e.Reason.Error()
	}
	if e.Reason == ErrReleased {
		return s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ". Stop; writes with this token are refused once a successor has raised the fence"
}

// Unwrap gives the reason and what was said.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

func lostError(name string, t fence.Token, end protocol.End) *LostError {
	reason := ErrExpired
	switch end.Reason {
	case protocol.Released:
		reason = ErrReleased
	case protocol.TakenOver:
		reason = ErrTakenOver
	case protocol.WorkStopped:
		reason = ErrWorkStopped
	case protocol.Cancelled:
		reason = ErrCancelled
	}
	return &LostError{Name: name, Token: t, Reason: reason, By: end.By, Err: end.Err}
}

// acquireError is what Acquire returns when it fails.
func acquireError(name string, end protocol.End) error {
	switch end.Reason {
	case protocol.Refused, protocol.Rejected:
		return fmt.Errorf("stint: %w", end.Err)
	case protocol.WaitOver:
		if !errors.Is(end.Err, ErrHeld) { // never refused: nobody answered
			return acquireError(name, protocol.End{Reason: protocol.NoAnswer, Err: end.Err})
		}
		return fmt.Errorf("stint: waited as long as was asked: %w", end.Err)
	case protocol.TooLate:
		return fmt.Errorf("stint: acquiring %q: %w: %w", name, ErrTooLate, end.Err)
	case protocol.Cancelled:
		if end.Last != nil {
			return fmt.Errorf("stint: acquiring %q: %w; at last: %w", name, end.Err, end.Last)
		}
	case protocol.NoAnswer:
		if end.Err == nil {
			return fmt.Errorf("stint: acquiring %q: %w", name, ErrNoAnswer)
		}
		if errors.Is(end.Err, protocol.ErrNotSent) {
			return fmt.Errorf("stint: acquiring %q: %w: %w", name, ErrNoAnswer, end.Err)
		}
		return fmt.Errorf("stint: acquiring %q: %w: %w; whatever was granted is being given back", name, ErrNoAnswer, end.Err)
	}
	return fmt.Errorf("stint: acquiring %q: %w", name, end.Err)
}
