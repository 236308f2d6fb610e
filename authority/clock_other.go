//go:build !linux && !darwin

package authority

import "time"

const hostWide = false

var processStart = time.Now()

func bootNow() Instant { return Instant(time.Since(processStart)) + 1 }
