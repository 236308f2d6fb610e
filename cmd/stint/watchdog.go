package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/notify"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

// watchdog counts the command's signs of life (--watchdog). A nil watchdog never
// bites.
type watchdog struct {
	bound time.Duration
	clock authority.Clock
	out   *report.Printer
	up    *upstream
	wake  chan struct{} // the command itself says that it is stuck
	srv   *notify.Server
	path  string

	mu    sync.Mutex
	bites time.Duration     // the present bound: the command may shorten it
	last  authority.Instant // the last sign
	due   authority.Instant // of the next one; zero: not counted yet
	stuck bool
	told  map[string]bool // what was said already
}

// longestExtension is how far ahead the command may ask not to be expected: a
// mistake in it must not keep the lease for ever.
const longestExtension = 24 * time.Hour

// newWatchdog listens in folder.
func newWatchdog(s *session, folder string, clock authority.Clock) (*watchdog, error) {
	if s.watchdog == 0 {
		return nil, nil
	}
	w := &watchdog{bound: s.watchdog, bites: s.watchdog, clock: clock, out: s.out, up: s.up,
		wake: make(chan struct{}, 1), path: filepath.Join(folder, "n"), told: map[string]bool{}}
	var err error
	w.srv, err = notify.Listen(w.path, w.hear)
	if err != nil {
		return nil, &report.Problem{Code: report.ExitService, What: "the socket for --watchdog cannot be made", Err: err,
			Data: "the command was not started", Do: "check XDG_RUNTIME_DIR and TMPDIR"}
	}
	return w, nil
}

func (w *watchdog) close() {
	if w != nil {
		w.srv.Close()
	}
}

// begin counts from now: the command was just started, or continued.
func (w *watchdog) begin() {
	if w != nil {
		w.mu.Lock()
		w.sign()
		w.mu.Unlock()
	}
}

// sign counts from now. It needs mu.
func (w *watchdog) sign() {
	w.last = w.clock.Now()
	w.due = w.last.Add(w.bites)
}

// hear takes one datagram.
func (w *watchdog) hear(m notify.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.MainPID {
		w.once("MAINPID is ignored: stint watches over everything that the command has started, whichever process speaks")
	}
	if m.Interval > w.bound {
		w.once(fmt.Sprintf("WATCHDOG_USEC of %v is ignored: --watchdog is %v", m.Interval, w.bound))
	} else if m.Interval > 0 {
		w.bites = m.Interval
		w.sign()
	}
	if m.Beat || m.Ready || m.Stopping || m.Extend > 0 {
		w.sign()
	}
	if m.Extend > 0 {
		w.due = max(w.due, w.last.Add(min(m.Extend, longestExtension)))
	}
	if m.Trigger {
		w.stuck = true
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	if m.Status != "" {
		w.up.say("STATUS=" + report.Clean(m.Status))
	}
}

// once tells something that the command does wrong, the first time. It needs mu.
func (w *watchdog) once(text string) {
	if !w.told[text] {
		w.told[text] = true
		w.out.Soon("%s", text)
	}
}

// silent says why the command is taken for stuck, or when to look again.
func (w *watchdog) silent(now authority.Instant) (wait time.Duration, why error) {
	if w == nil {
		return time.Hour, nil
	}
	if wait, why = w.judge(now); why == nil {
		return wait, nil
	}
	w.srv.Drain() // this process may be the one that was frozen
	return w.judge(now)
}

func (w *watchdog) judge(now authority.Instant) (wait time.Duration, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stuck:
		return 0, errors.New("the command said itself that it is stuck (WATCHDOG=trigger)")
	case w.due != 0 && now >= w.due:
		return 0, fmt.Errorf("the command gave no sign of life for %v (--watchdog)", report.Short(now.Sub(w.last)))
	}
	return w.due.Sub(now), nil
}

// called wakes the guard.
func (w *watchdog) called() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.wake
}

// environment is what the command finds of it. WATCHDOG_PID is left out, which
// means to every client of the protocol that the variables are for whoever finds
// them: a shell's children give signs as well as the shell.
func (w *watchdog) environment() []string {
	if w == nil {
		return nil
	}
	return []string{"NOTIFY_SOCKET=" + w.path, fmt.Sprintf("WATCHDOG_USEC=%d", w.bound.Microseconds())}
}
