package fence

import (
	"context"
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
