//go:build !race

package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// yes is an authority that grants everything and keeps nothing, so that what is
// measured is the holder's side alone.
type yes struct{ token atomic.Int64 }

func (y *yes) Acquire(_ context.Context, r authority.Request) (authority.Grant, error) {
	g := fence.Grant{Token: fence.Token(y.token.Add(1)), Nonce: r.Nonce}
	return authority.Grant{Grant: g, Name: r.Name, Length: r.Length}, nil
}

func (y *yes) Renew(_ context.Context, g authority.Grant) (authority.Grant, error) { return g, nil }
func (y *yes) Release(context.Context, authority.Grant) error                      { return nil }
func (y *yes) Close() error                                                        { return nil }

func (y *yes) Inspect(_ context.Context, name string) (authority.State, error) {
	return authority.State{Name: name}, nil
}

// The bars of the issue that asked for the core.
const (
	errRatioAtMost   = 1.5  // Lease.Err over one bare clock read
	bytesAtMost      = 2048 // per lease of a client
	leasesOfAClient  = 10_000
	callsPerMeasure  = 2_000_000
	measuresPerRound = 5
)

// readClock is what no check of a lease can do without.
func readClock() {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
}

// leaseErr compares the check before every action with the clock read that it
// cannot do without.
func (b *bench) leaseErr() error {
	c, err := stint.New(&yes{}, stint.Options{TTL: time.Hour})
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := c.Acquire(context.Background(), "err")
	if err != nil {
		return err
	}
	check := func() {
		if err := l.Err(); err != nil {
			panic(err)
		}
	}
	// The fastest of many measures: noise only ever adds.
	fastBare, fastCheck := math.Inf(1), math.Inf(1)
	for range b.rounds * measuresPerRound {
		fastBare = min(fastBare, nsPerCall(readClock))
		fastCheck = min(fastCheck, nsPerCall(check))
	}
	b.row("one bare CLOCK_BOOTTIME read", "%.1f ns", fastBare)
	b.row("Lease.Err", "%.1f ns", fastCheck)
	b.bar("Lease.Err over the bare read", fastCheck/fastBare, errRatioAtMost, "times")
	b.bar("Lease.Err allocates", allocsPerCall(check), 0, "objects")
	return nil
}

func nsPerCall(f func()) float64 {
	begun := time.Now()
	for range callsPerMeasure {
		f()
	}
	return float64(time.Since(begun).Nanoseconds()) / callsPerMeasure
}

// allocsPerCall counts with one processor, so that nobody else allocates in
// between; rounding down drops what the runtime itself does now and then.
func allocsPerCall(f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const calls = 100_000
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / calls)
}

// manyLeases holds ten thousand leases in one client.
func (b *bench) manyLeases() error {
	c, err := stint.New(&yes{}, stint.Options{TTL: time.Hour})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Acquire(ctx, "the first starts the loop"); err != nil {
		return err
	}

	leases := make([]*stint.Lease, leasesOfAClient)
	goroutines, bytes := runtime.NumGoroutine(), heapInUse()
	for i := range leases {
		if leases[i], err = c.Acquire(ctx, fmt.Sprint("job/", i)); err != nil {
			return err
		}
	}
	// The goroutines of requests that have been answered need a moment to end.
	moreGoroutines := runtime.NumGoroutine() - goroutines
	for end := time.Now().Add(5 * time.Second); moreGoroutines > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		moreGoroutines = runtime.NumGoroutine() - goroutines
	}
	perLease := float64(heapInUse()-bytes) / leasesOfAClient
	runtime.KeepAlive(leases)
	b.bar(fmt.Sprintf("goroutines more for %d leases", leasesOfAClient), float64(moreGoroutines), 0, "goroutines")
	b.bar("memory of a lease", perLease, bytesAtMost, "bytes")
	return nil
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go in the first round
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
