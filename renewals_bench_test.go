package stint

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/clock"
)

// grantsAll is an authority that grants and renews everything, and counts.
type grantsAll struct {
	token, renewals, rounds atomic.Int64
}

func (y *grantsAll) Acquire(_ context.Context, r authority.Request) (authority.Grant, error) {
	g := fence.Grant{Token: fence.Token(y.token.Add(1)), Nonce: r.Nonce}
	return authority.Grant{Grant: g, Name: r.Name, Length: r.Length}, nil
}

func (y *grantsAll) RenewAll(_ context.Context, grants []authority.Grant) []authority.Renewal {
	answers := make([]authority.Renewal, len(grants))
	for i, g := range grants {
		answers[i].Grant = g
	}
	y.rounds.Add(1)
	y.renewals.Add(int64(len(grants)))
	return answers
}

func (y *grantsAll) Renew(_ context.Context, g authority.Grant) (authority.Grant, error) {
	y.renewals.Add(1)
	return g, nil
}
func (y *grantsAll) Release(context.Context, authority.Grant) error { return nil }
func (y *grantsAll) Close() error                                   { return nil }
func (y *grantsAll) Inspect(_ context.Context, name string) (authority.State, error) {
	return authority.State{Name: name}, nil
}

// oneByOne has no RenewAll.
type oneByOne struct{ authority.Authority }

// idle reports whether nothing is due or under way.
func (c *Client) idle() bool {
	idle := make(chan bool, 1)
	c.rt.post(posted{do: func() {
		c.rt.calls.mu.Lock()
		workers := c.rt.calls.workers
		c.rt.calls.mu.Unlock()
		c.rt.mu.Lock()
		defer c.rt.mu.Unlock()
		idle <- workers == 0 && len(c.rt.inbox) == 0 && c.rt.timers[0].at > c.rt.clock.Now()
	}})
	return <-idle
}

// BenchmarkRenewals is what the client spends on a renewal: ten thousand leases
// of 10 s, each renewed every 3 s.
func BenchmarkRenewals(b *testing.B) {
	for _, bulk := range []bool{true, false} {
		b.Run(fmt.Sprint("bulk=", bulk), func(b *testing.B) {
			y, fake := &grantsAll{}, &clock.Fake{}
			fake.Advance(time.Hour)
			var a authority.Authority = y
			if !bulk {
				a = oneByOne{y}
			}
			c, err := newClient(a, Options{}, fake)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			const leases = 10_000
			for i := range leases {
				if i%100 == 0 {
					fake.Advance(28 * time.Millisecond) // spread over 2.8 s
				}
				if _, err := c.Acquire(b.Context(), fmt.Sprint("job/", i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for y.renewals.Load() < int64(b.N) {
				fake.Advance(20 * time.Millisecond)
				for !c.idle() {
					goruntime.Gosched()
				}
			}
			b.ReportMetric(float64(y.renewals.Load())/float64(max(1, y.rounds.Load())), "renewals/round")
		})
	}
}

// BenchmarkCycle is what the client adds to an acquire and its release.
func BenchmarkCycle(b *testing.B) {
	c, err := New(&grantsAll{}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(b.Context(), "job")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
