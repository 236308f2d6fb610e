package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/fence"
)

// repeat runs an fn that may be repeated: when the answer to a COMMIT is lost,
// doing it again settles it. again tells fn that it may have been applied
// before. The error matches fence.ErrUnknown if ctx, or the settle time after
// the lost answer, ended first.
func (f *Fence) repeat(ctx context.Context, what string, fn func(ctx context.Context, tx *sql.Tx, again bool) error) error {
	if err := f.notInside(); err != nil {
		return fmt.Errorf("sqlfence: %s: %w", what, err)
	}
	var wait backoff
	var lost error
	for {
		how, err := f.begin(ctx, &attempt{}, func(ctx context.Context, tx *sql.Tx) error { return fn(ctx, tx, lost != nil) })
		switch {
		case err == nil:
			return nil
		case refusal(err):
			return err
		case how == sent && lost == nil:
			lost = err
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, f.settle)
			defer cancel()
		case how != sent && lost == nil:
			return f.explain(what, err)
		}
		if !wait.sleep(ctx) {
			return fmt.Errorf("sqlfence: %s: %w: the answer to COMMIT was lost (%w), and it could not be repeated in time (%v). Repeating it is harmless",
				what, fence.ErrUnknown, lost, err)
		}
	}
}

// refusal tells the fence's own answers, which are final.
func refusal(err error) bool {
	if err == errDone {
		return true
	}
	for _, target := range []error{fence.ErrStale, fence.ErrRepeated, fence.ErrNoFence, fence.ErrNotRaised, fence.ErrChanged, fence.ErrSequence} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// explain says what a definite failure means.
func (f *Fence) explain(what string, err error) error {
	if f.d.missing(err) {
		return fmt.Errorf("sqlfence: %s: nothing was written: %w. The fence's table is missing: run Migrate once, on the database that holds the data", what, err)
	}
	if errors.Is(err, ErrBusy) {
		return fmt.Errorf("sqlfence: %s: %w", what, err)
	}
	return fmt.Errorf("sqlfence: %s: nothing was written: %w", what, err)
}

// backoff waits between tries: 1 ms, doubled up to 100 ms, less up to a half by
// chance so that many waiters do not come at once.
type backoff struct{ next time.Duration }

func (b *backoff) sleep(ctx context.Context) bool {
	b.next = min(max(2*b.next, time.Millisecond), 100*time.Millisecond)
	t := time.NewTimer(b.next - rand.N(b.next/2))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
