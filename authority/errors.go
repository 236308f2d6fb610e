package authority

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Sentinels, for errors.Is. All are definite: nothing was changed.
var (
	ErrHeld    = errors.New("held by another")
	ErrNotHeld = errors.New("not held")
	ErrInvalid = errors.New("invalid request")
	// ErrBroken: the authority cannot work as it is, and trying again does not
	// help: its file was removed or replaced, say. Nothing was changed.
	ErrBroken = errors.New("the authority cannot be used as it is")
	// ErrClosed: the authority was closed before the request was sent.
	ErrClosed = errors.New("authority is closed")
)

// HeldError refuses an Acquire: somebody holds the name, or stands before the
// asker in its line. It matches ErrHeld.
type HeldError struct {
	State State // of the name when it was refused
	Ahead int   // waiters before the asker, where the authority keeps a line
}

func (e *HeldError) Error() string {
	s := e.State
	if !s.Held {
		return fmt.Sprintf("%q is free, but %d in line are served first", s.Name, e.Ahead)
	}
	return fmt.Sprintf("%q is held by %s with token %d for another %v unless it is renewed",
		s.Name, holderOr(s.Holder), s.Grant.Token, s.Left.Round(time.Millisecond))
}

// Is matches ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// NotHeldError refuses a Renew or Release: the grant has ended. It matches
// ErrNotHeld.
type NotHeldError struct {
	Grant fence.Grant // the one that has ended
	State State       // of the name when it was refused; State.Grant is the successor's, if any
}

func (e *NotHeldError) Error() string {
	s := e.State
	switch {
	case s.Grant.Token > e.Grant.Token:
		return fmt.Sprintf("%q is no longer held with token %d: %s took over with token %d",
			s.Name, e.Grant.Token, holderOr(s.Holder), s.Grant.Token)
	default:
		return fmt.Sprintf("%q is no longer held with token %d: it ran out or was released", s.Name, e.Grant.Token)
	}
}

// Is matches ErrNotHeld.
func (e *NotHeldError) Is(target error) bool { return target == ErrNotHeld }

func holderOr(h string) string {
	if h == "" {
		return "another holder"
	}
	return h
}

// LengthError refuses a lease length that cannot be kept, and names the nearest
// that can. It matches ErrInvalid.
type LengthError struct {
	Asked, Nearest time.Duration
	Why            string
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("lease length %v: %s; the nearest that can be kept is %v", e.Asked, e.Why, e.Nearest)
}

// Is matches ErrInvalid.
func (e *LengthError) Is(target error) bool { return target == ErrInvalid }

// The lengths that every authority must be able to refuse or keep. A backend
// may be stricter.
const (
	MinLength = time.Millisecond
	MaxLength = 366 * 24 * time.Hour
)

// CheckLength refuses lengths that no authority keeps, with a *LengthError.
func CheckLength(d time.Duration) error {
	switch {
	case d <= 0:
		return &LengthError{d, MinLength, "a lease has to last some time"}
	case d < MinLength:
		return &LengthError{d, MinLength, "shorter than a clock and a request can tell"}
	case d > MaxLength:
		return &LengthError{d, MaxLength, "longer than any job (was a number of seconds taken for a time.Duration?)"}
	}
	return nil
}

// Check says what is wrong with a request, or nil. The error matches ErrInvalid.
func (r Request) Check() error {
	if err := fence.CheckName(r.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := CheckLength(r.Length); err != nil {
		return err
	}
	if err := (fence.Grant{Token: 1, Nonce: r.Nonce}).Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if r.Waiter != "" {
		if err := (fence.Grant{Token: 1, Nonce: r.Waiter}).Validate(); err != nil {
			return fmt.Errorf("%w: waiter: %w", ErrInvalid, err)
		}
	}
	return nil
}
