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
)

// bulkYes renews many at once, as an authority does whose leases share one.
type bulkYes struct {
	yes
	renewals atomic.Int64
}

func (y *bulkYes) RenewAll(_ context.Context, grants []authority.Grant) []authority.Renewal {
	answers := make([]authority.Renewal, len(grants))
	for i, g := range grants {
		answers[i].Grant = g
	}
	y.renewals.Add(int64(len(grants)))
	return answers
}

// readsAtMost is what a renewal may cost, in readings of the clock: where one
// takes 250 ns, ten thousand leases of 10 s take half a percent of a core.
const readsAtMost = 6

// renewals measures what the client itself spends on the renewals of ten
// thousand leases of 10 s.
func (b *bench) renewals() error {
	y := &bulkYes{}
	c, err := stint.New(y, stint.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	for i := range leasesOfAClient {
		if _, err := c.Acquire(ctx, fmt.Sprint("job/", i)); err != nil {
			return err
		}
	}
	runtime.GC() // of what the acquiring has left
	best := math.Inf(1)
	for range b.rounds {
		done, used, begun := y.renewals.Load(), cpuTime(), time.Now()
		time.Sleep(3 * time.Second) // one renewal of each
		done, used = y.renewals.Load()-done, cpuTime()-used
		if done < leasesOfAClient*9/10 {
			return fmt.Errorf("%d renewals in 3 s, of %d leases", done, leasesOfAClient)
		}
		b.row(fmt.Sprintf("%d renewals", done), "%.2f µs each, %.2f %% of a core", float64(used.Microseconds())/float64(done),
			100*used.Seconds()/time.Since(begun).Seconds())
		best = min(best, float64(used.Nanoseconds())/float64(done)/cpuPerCall(readClock))
	}
	b.bar("a renewal over a bare clock read", best, readsAtMost, "times")
	return nil
}

// cpuPerCall is nsPerCall in CPU time: a machine that does something else beside
// it has no part in it.
func cpuPerCall(f func()) float64 {
	used := cpuTime()
	for range callsPerMeasure {
		f()
	}
	return float64((cpuTime() - used).Nanoseconds()) / callsPerMeasure
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
