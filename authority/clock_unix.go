//go:build linux || darwin

package authority

import "golang.org/x/sys/unix"

const hostWide = true

func bootNow() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClockID, &ts); err != nil {
		// A clock that cannot be read cannot be replaced by another one: their
		// fixed points differ, and a lease would be judged by the wrong one.
		panic("stint: the boot clock cannot be read: " + err.Error())
	}
	return Instant(ts.Nano())
}
