package notify

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Message is what one datagram says, of the lines that sd_notify(3) describes.
type Message struct {
	Beat     bool          // WATCHDOG=1
	Trigger  bool          // WATCHDOG=trigger: the service itself says that it is stuck
	Ready    bool          // READY=1
	Stopping bool          // STOPPING=1
	MainPID  bool          // MAINPID=...
	Extend   time.Duration // EXTEND_TIMEOUT_USEC; zero: not said
	Interval time.Duration // WATCHDOG_USEC; zero: not said
	Status   string        // STATUS=...; empty: not said
}

// parse reads lines; those that it does not know are left out.
func parse(datagram []byte) (m Message) {
	for line := range strings.Lines(string(datagram)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		switch key {
		case "WATCHDOG":
			m.Beat = m.Beat || value == "1"
			m.Trigger = m.Trigger || value == "trigger"
		case "READY":
			m.Ready = value == "1"
		case "STOPPING":
			m.Stopping = value == "1"
		case "MAINPID":
			m.MainPID = true
		case "EXTEND_TIMEOUT_USEC":
			m.Extend = micros(value)
		case "WATCHDOG_USEC":
			m.Interval = micros(value)
		case "STATUS":
			m.Status = value
		}
	}
	return m
}

// micros is a number of microseconds; zero where it is none, or cannot be
// counted.
func micros(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > math.MaxInt64/uint64(time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}
