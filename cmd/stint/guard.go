package main

import (
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/oksocket"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
	"github.com/stint-dev/stint/cmd/stint/internal/warden"
	"github.com/stint-dev/stint/internal/clock"
)

// guard watches a command and its lease. One goroutine runs it.
//
// Whatever wakes it, it looks at the lease first: after a freeze several things
// are ready at once, and a command whose lease is over must be killed before
// anything else is passed on to it.
type guard struct {
	s        *session
	lease    *stint.Lease
	child    *supervise.Child
	second   *warden.Guard // the guard process
	dog      *watchdog     // nil: without --watchdog
	terminal *supervise.Terminal
	schedule supervise.Schedule
	clock    clock.Clock
	alarm    clock.Alarm

	told   atomic.Bool       // the command was told to stop: stint ok says no from then on
	killAt authority.Instant // set when told; a renewal that succeeds later does not move it
	cause  error             // why the lease is lost
	stuck  bool              // it is not: the command gave no sign of life
	killed bool
	later  <-chan time.Time // when to say what is left
	code   int
	exited bool
	asked  syscall.Signal // a signal to end that was passed on

	replaced authority.Instant // when the guard process was replaced last
}

func newGuard(s *session, l *stint.Lease) *guard {
	return &guard{s: s, lease: l, terminal: supervise.FindTerminal(), clock: clock.Boot(),
		schedule: supervise.Schedule{Grace: s.grace, Lead: supervise.LeadFor(s.times.Margin)}}
}

// answer is what stint ok hears.
func (g *guard) answer() oksocket.Answer {
	a := oksocket.Answer{Name: g.lease.Name(), Token: int64(g.lease.Token()), Grant: g.lease.Grant().String()}
	err := g.lease.Err()
	switch {
	case err != nil:
		a.Why = err.Error()
	case g.told.Load():
		a.Why = "the command was told to stop: the lease could not be renewed, or the command gave no sign of life"
	default:
		a.Left = g.lease.Status().Left
	}
	return a
}

// watch returns when nothing of the command is left, with its exit code; the
// error is a lost lease's.
func (g *guard) watch(child *supervise.Child) (int, error) {
	g.child = child
	g.dog.begin()
	g.tellSecond(func(*warden.Orders) {})
	tstp := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(tstp, syscall.SIGTSTP)
	}
	var err error
	if g.alarm, err = g.clock.NewAlarm(); err != nil {
		g.lose(err)
	} else {
		defer g.alarm.Close()
	}
	g.loop(tstp)
	if g.terminal.Take(child.Pid()) && (g.killed || g.code > 128) {
		g.terminal.Restore() // it had no chance to do so itself
	}
	if g.stuck {
		return g.code, g.s.stuck(g.cause)
	}
	if g.cause != nil {
		return g.code, g.s.lost(g.cause, "the command was ended; what it sent late is refused where a fence checks its token")
	}
	return g.code, nil
}

func (g *guard) loop(tstp chan os.Signal) {
	var alarm <-chan struct{}
	if g.alarm != nil {
		alarm = g.alarm.C()
	}
	over := g.lease.Context().Done()
	for {
		g.check()
		select {
		case <-alarm:
		case <-over:
			over = nil // check has seen it, or does so now
		case <-tstp:
			g.child.Signal(syscall.SIGTSTP)
		case sig := <-g.s.signals:
			g.check()
			g.pass(sig.(syscall.Signal))
		case <-g.dog.called():
		case <-g.later:
			g.notice()
		case ev := <-g.child.Events():
			switch ev.Kind {
			case supervise.Stopped:
				g.stop(ev.Signal)
			case supervise.Exited:
				g.ended(ev.Code)
				g.later = time.After(time.Second)
			case supervise.BesideEnded:
				g.replaceSecond()
			case supervise.Gone:
				g.code = ev.Code
				return
			}
		}
	}
}

// check does what is due, and sets the alarm for what is due next.
func (g *guard) check() {
	if g.killed {
		return
	}
	if err := g.lease.Err(); err != nil {
		g.lose(err)
		return
	}
	now := g.clock.Now()
	if g.told.Load() {
		if now >= g.killAt {
			g.kill()
		}
		return
	}
	st := g.lease.Status()
	action, wait := g.schedule.At(st.Left)
	next, silent := g.dog.silent(now)
	switch {
	case action == supervise.Kill:
		g.lose(unrenewed(st))
	case action == supervise.Term:
		g.tell(st)
	case g.second.Acted(now): // by what it knew, before this process was continued
		g.tell(st)
	case silent != nil:
		g.end(silent, st)
	default:
		g.s.alive()
		g.tellSecond(func(o *warden.Orders) { o.Stop = st.Stop })
		g.alarm.Set(now.Add(min(wait, next, g.s.turn())))
	}
}

// tell asks the command to stop, with the time until the stop time for it. A
// renewal that succeeds now changes nothing: half of the command may have
// stopped already.
func (g *guard) tell(st stint.Status) {
	g.terminate(unrenewed(st), st, st.Stop.Add(-g.schedule.Lead))
	g.s.out.Soon("the lease on %s was not renewed: the command is told to stop (TERM), and killed in %v",
		report.Name(g.s.name), report.Short(st.Left-g.schedule.Lead))
}

// end ends a command that gives no sign of life. The lease is kept until nothing
// of it is left, but not renewed any more: what cannot be killed must not keep it
// for ever.
func (g *guard) end(silent error, st stint.Status) {
	g.stuck = true
	g.terminate(silent, st, min(g.clock.Now().Add(g.s.grace), st.Stop.Add(-g.schedule.Lead)))
	g.s.out.Soon("%v: it is told to stop (TERM), and killed in %v", silent, report.Short(g.s.grace))
}

// terminate asks the command to stop by killAt.
func (g *guard) terminate(cause error, st stint.Status, killAt authority.Instant) {
	g.cause, g.killAt = cause, killAt
	g.told.Store(true)
	g.alarm.Set(killAt)
	g.tellSecond(func(o *warden.Orders) { o.Told, o.Stop = true, st.Stop })
	g.child.Terminate()
}

// lose ends the command at once.
func (g *guard) lose(err error) {
	if g.cause == nil {
		g.cause = err
	}
	g.told.Store(true)
	g.kill()
}

func (g *guard) kill() {
	g.killed = true
	g.later = time.After(2 * time.Second)
	g.child.Kill()
	if g.stuck {
		g.s.out.Soon("the command did not stop: it is killed")
		return
	}
	g.s.out.Soon("the lease on %s is over: the command is killed", report.Name(g.s.name))
}

func unrenewed(st stint.Status) error {
	if st.LastErr != nil {
		return st.LastErr
	}
	return stint.ErrExpired
}

// pass hands a signal on. A job that is continued in the foreground gets the
// terminal again.
func (g *guard) pass(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		g.cont()
		return
	}
	if endedBy(sig) != 0 && !isUser(sig) {
		g.asked = sig
	}
	g.child.Signal(sig)
	if sig == syscall.SIGTERM { // a stopped process acts on nothing, and its lease is still held
		g.child.Signal(syscall.SIGCONT)
	}
}

// isUser tells a signal that asks for something else than the end.
func isUser(sig os.Signal) bool { return sig == syscall.SIGUSR1 || sig == syscall.SIGUSR2 }

// ended: the command itself is gone. What it left outside of its group is told
// what the group was told.
func (g *guard) ended(code int) {
	g.exited, g.code = true, code
	if g.asked != 0 {
		g.child.SignalStrays(g.asked)
	}
}

// notice says why stint does not end although the command has, or was killed.
func (g *guard) notice() {
	left := g.child.Left()
	if len(left) == 0 {
		return
	}
	names := make([]string, 0, len(left))
	for _, p := range left[:min(len(left), 5)] {
		names = append(names, p.String())
	}
	list := strings.Join(names, ", ")
	if g.killed {
		g.s.out.Soon("%d could not be killed yet: %s; they wait for a disk or a network that does not answer, or belong to another user. "+
			"The lease is over: only a fence stops what they still write", len(left), list)
		return
	}
	g.s.out.Soon("the command ended with exit code %d, but left %d running: %s; the lease is kept until they are gone",
		g.code, len(left), list)
}
