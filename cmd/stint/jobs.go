package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
)

// Job control. ^Z stops the command, and stint with it, so that the shell gets
// its prompt back. Nobody renews the lease then; if it has run out when the job
// is continued, the command is killed before it runs another instruction: only
// stint continues the command's group, and it looks at the lease first.

// stop follows the command into a stop. The channel says when to go on: it
// fires soon after stint runs again.
func (g *guard) stop(by syscall.Signal) <-chan time.Time {
	if g.exited || g.killed {
		return nil
	}
	if by == syscall.SIGSTOP || !g.mayStop() {
		g.s.out.Line("the command was stopped (%v); the lease is kept", by)
		return nil
	}
	g.terminal.Take()
	g.s.out.Line("the command was stopped; its lease is not renewed until it goes on, and after %v it is killed instead",
		report.Short(g.lease.Status().Left))
	supervise.StopSelf()
	// In a group that no shell controls that did nothing, as ^Z does nothing to
	// a process there; then the command goes on.
	return time.After(200 * time.Millisecond)
}

// mayStop tells whether a shell could continue stint.
func (g *guard) mayStop() bool { return !signal.Ignored(syscall.SIGTSTP) }

// resume runs when stint runs again after a stop.
func (g *guard) resume(tstp chan os.Signal) {
	if g.mayStop() {
		signal.Notify(tstp, syscall.SIGTSTP)
	}
	g.cont()
}

// cont continues the command, in the foreground if stint is there.
func (g *guard) cont() {
	if g.killed {
		return
	}
	if !g.exited {
		g.terminal.Give(g.child.Pid())
	}
	g.child.Signal(syscall.SIGCONT)
}
