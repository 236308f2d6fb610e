package fence

import (
	"context"
	"time"
)

type leftKey struct{}

// WithTimeLeft returns a context that tells how long its holder may still act:
// the time to the stop time of its lease, which every renewal moves. A fence
// bounds by it what a frozen holder can hold up at the resource. The context of
// a stint.Lease has it already.
func WithTimeLeft(ctx context.Context, left func() time.Duration) context.Context {
	return context.WithValue(ctx, leftKey{}, left)
}

// TimeLeft is how long the holder may still act, by WithTimeLeft or by the
// context's own deadline, whichever is sooner. It is not positive when the time
// is up; known is false where ctx tells neither.
func TimeLeft(ctx context.Context) (left time.Duration, known bool) {
	if f, ok := ctx.Value(leftKey{}).(func() time.Duration); ok {
		left, known = f(), true
	}
	if end, ok := ctx.Deadline(); ok {
		if d := time.Until(end); !known || d < left {
			left, known = d, true
		}
	}
	return left, known
}

// Over is why nothing may be begun under ctx any more: the cause of its end, or
// context.DeadlineExceeded where no time is left; otherwise nil. It reads the time
// anew, so it is right after a pause, before any timer has fired.
func Over(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if left, known := TimeLeft(ctx); known && left <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}
