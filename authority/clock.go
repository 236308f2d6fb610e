package authority

import "time"

// Instant is a reading of a clock that never steps and that goes on while the
// machine sleeps: nanoseconds since some fixed point. Instants of two hosts, or
// of two boots of one host, cannot be compared.
type Instant int64

// Add returns t+d, held at the ends of the range instead of wrapping.
func (t Instant) Add(d time.Duration) Instant {
	s := t + Instant(d)
	switch {
	case d > 0 && s < t:
		return 1<<63 - 1
	case d < 0 && s > t:
		return -1 << 63
	}
	return s
}

// Sub returns t-u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// String prints the time since the fixed point.
func (t Instant) String() string { return time.Duration(t).String() }

// Clock tells the time that leases are judged by.
type Clock interface{ Now() Instant }

// BootClock is this host's clock. On Linux it is CLOCK_BOOTTIME, which, unlike
// the clock behind time.Now, counts the time that the machine was suspended; on
// macOS CLOCK_MONOTONIC, which does too. Both are the same for all processes of
// the host (within one time namespace). Elsewhere it falls back to the clock of
// package time: per process, and whether it counts suspension is up to the
// system; HostWide tells.
type BootClock struct{}

// Now reads the clock.
func (BootClock) Now() Instant { return bootNow() }

// HostWide reports whether BootClock's instants may be compared between the
// processes of this host.
func (BootClock) HostWide() bool { return hostWide }
