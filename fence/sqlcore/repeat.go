package sqlcore

import (
	"context"

	"github.com/stint-dev/stint/fence"
)

// repeat runs an fn that may be repeated: when the answer to a COMMIT is lost,
// doing it again settles it. again tells fn that it may have been applied
// before. The error matches fence.ErrUnknown if ctx, or the settle time after
// the lost answer, ended first.
func (e *Engine) repeat(ctx context.Context, what, name string, fn func(ctx context.Context, tx Tx, again bool) error) error {
	lost := false
	return e.again(ctx, what, func(ctx context.Context) (Outcome, error) {
		return e.begin(ctx, &Attempt{name: name}, func(ctx context.Context, tx Tx) error { return fn(ctx, tx, lost) })
	}, func() { lost = true })
}

// repeatLocking is repeat for what begins with the row's lock.
func (e *Engine) repeatLocking(ctx context.Context, a *Attempt, what, name string, fn func(ctx context.Context, tx Tx, was record) error) error {
	return e.again(ctx, what, func(ctx context.Context) (Outcome, error) { return e.locking(ctx, a, name, fn) }, func() {})
}

func (e *Engine) again(ctx context.Context, what string, do func(context.Context) (Outcome, error), onLoss func()) error {
	if err := e.notInside(); err != nil {
		return e.errorf("%s: %w", what, err)
	}
	var wait backoff
	var lost error
	for {
		how, err := do(ctx)
		switch {
		case err == nil:
			return nil
		case refusal(err):
			return err
		case how == Sent && lost == nil:
			lost = err
			onLoss()
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, e.settle)
			defer cancel()
		case how != Sent && lost == nil:
			return e.explain(what, err)
		}
		if !wait.sleep(ctx) {
			return e.errorf("%s: %w: the answer to COMMIT was lost (%w), and it could not be repeated in time (%v). Repeating it is harmless",
				what, fence.ErrUnknown, lost, err)
		}
	}
}
