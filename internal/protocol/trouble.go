package protocol

import (
	"errors"
	"fmt"
)

// unheard is a request that had no answer in time, after one that failed for a
// reason: to people the reason says more than the silence.
type unheard struct{ err, told error }

func (u *unheard) Error() string {
	return fmt.Sprintf("%v; before that: %v", u.err, u.told)
}

// Unwrap is the silence alone: it decides what is known of the last request, and
// the answer to an earlier one must not.
func (u *unheard) Unwrap() error { return u.err }

// silence reports whether the error is the want of an answer: the end of a
// context's time, or of a connection's, says Timeout.
func silence(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout() || errors.Is(err, ErrNotSent)
}

// since is the trouble after err, where before was the trouble until then.
func since(before, err error) error {
	if before == nil || !silence(err) {
		return err
	}
	told := before
	var u *unheard
	switch {
	case errors.As(before, &u):
		told = u.told
	case silence(before):
		return err
	}
	return &unheard{err, told}
}
