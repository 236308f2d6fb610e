package main

import (
	"os"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/notify"
)

// upstream is the manager that stint itself is a service of, such as systemd
// with Type=notify. Where there is none, nothing is said. It is never waited for:
// a manager that is busy must not keep stint from ending its command in time. One
// goroutine calls alive and started; say may be called by any.
type upstream struct {
	there bool
	every time.Duration // it wants to hear from us; zero: it does not
	ready bool
	owed  string // what it was too busy to take, and has to hear
	last  time.Time
}

func newUpstream() *upstream {
	u := &upstream{there: os.Getenv("NOTIFY_SOCKET") != ""}
	if w := notify.Watchdog(); w > 0 {
		u.every = max(w/3, 10*time.Millisecond)
	}
	return u
}

// say reports whether the manager has taken it.
func (u *upstream) say(state string) bool {
	return u != nil && u.there && notify.Offer(state) == nil
}

// extension is what a wait for the lease asks for again and again, so that a
// manager with a start timeout waits along.
const extension = 30 * time.Second

// alive says that stint works, as often as is wanted.
func (u *upstream) alive() {
	if u == nil || !u.there {
		return
	}
	if u.owed != "" && u.say(u.owed) {
		u.owed = ""
	}
	every, state := u.every, "WATCHDOG=1"
	if !u.ready {
		every, state = extension/4, "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=30000000"
		if u.every > 0 {
			every = min(every, u.every)
		}
	}
	if every > 0 && time.Since(u.last) >= every {
		u.last = time.Now()
		u.say(state)
	}
}

// started says that the lease is held and the command runs.
func (u *upstream) started(status string) {
	u.ready, u.owed = true, "READY=1\nSTATUS="+status
	u.alive()
}
