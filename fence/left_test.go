package fence

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheTimeLeftIsTheSoonerOfLeaseAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := 10 * time.Second
		ctx := WithTimeLeft(context.Background(), func() time.Duration { return lease })
		short, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		long, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		plain, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			want time.Duration
		}{{ctx, lease}, {short, 4 * time.Second}, {long, lease}, {plain, time.Minute}} {
			if left, known := TimeLeft(c.ctx); left != c.want || !known {
				t.Errorf("left is %v, %v, want %v", left, known, c.want)
			}
		}
		if left, known := TimeLeft(context.Background()); known {
			t.Errorf("a context that knows nothing tells %v", left)
		}
		lease = -time.Second
		if left, known := TimeLeft(long); left != lease || !known {
			t.Errorf("after the stop time it is %v, %v", left, known)
		}
	})
}

// asleep is a context whose deadline has passed while its timer could not fire.
type asleep struct{ context.Context }

func (asleep) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestAContextIsOverBeforeAnyTimerHasFired(t *testing.T) {
	lost := errors.New("lease lost")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	left := func(d time.Duration) context.Context {
		return WithTimeLeft(t.Context(), func() time.Duration { return d })
	}
	for i, c := range []struct {
		ctx  context.Context
		want error
	}{
		{t.Context(), nil},
		{left(time.Hour), nil},
		{left(0), context.DeadlineExceeded},
		{asleep{t.Context()}, context.DeadlineExceeded},
		{ended, lost},
	} {
		if err := Over(c.ctx); err != c.want {
			t.Errorf("context %d: %v, want %v", i, err, c.want)
		}
	}
}
