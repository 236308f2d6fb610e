package stint

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/authority"
)

// Do acquires the lease, runs f with the lease's context, and gives the lease
// back when f has returned (or panicked). f's context is done, with a cause, at
// the stop time.
//
// It returns f's error. If the lease was over before f returned, the error also
// matches the reason (ErrExpired, ErrTakenOver, …), even if f returned nil: what
// f did last may have come too late, and only the resource can tell. A lease that
// f has released itself was not lost.
func (c *Client) Do(ctx context.Context, name string, f func(context.Context, *Lease) error) error {
	l, err := c.Acquire(ctx, name)
	if err != nil {
		return err
	}
	defer func() {
		// The work is over either way; give the lease back although ctx may have
		// ended, but do not hang on an authority that does not answer.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.o.Timeout)
		defer cancel()
		_ = l.Release(rctx) // goes on in the background; the lease runs out at the latest
	}()
	err = f(l.Context(), l)
	if lost := l.Err(); lost != nil && !errors.Is(lost, ErrReleased) && !errors.Is(err, lost) {
		return errors.Join(err, lost)
	}
	return err
}

// Do is the one-liner: it opens the authority that url names, runs f under the
// lease, and closes everything again. The backend's package has to be imported.
func Do(ctx context.Context, url, name string, f func(context.Context, *Lease) error) (err error) {
	a, err := authority.Open(ctx, url)
	if err != nil {
		return err
	}
	defer a.Close()
	c, err := New(a, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }() // after a panic too
	return c.Do(ctx, name, f)
}
