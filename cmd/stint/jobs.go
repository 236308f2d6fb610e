package main

import (
	"syscall"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
)

// Job control. ^Z stops the command, and stint with it, so that the shell gets
// its prompt back. Nobody renews the lease then; when it runs out, the guard
// process kills the command. If that one is gone too, the command is killed when
// the job is continued, before it runs another instruction: only stint continues
// the command's group, and it looks at the lease first.

// stop follows the command into a stop. When stint is continued, it gets CONT.
func (g *guard) stop(by syscall.Signal) {
	if g.exited || g.killed {
		return
	}
	if by == syscall.SIGSTOP { // somebody wants to look at the command
		g.s.out.Line("the command was stopped (%v); the lease is kept", by)
		return
	}
	g.terminal.Take(g.child.Pid())
	g.s.out.Line("the command was stopped; while stint is stopped too, nobody renews the lease: "+
		"unless the job is continued before it runs out, in %v, the command is killed", report.Short(g.lease.Status().Left))
	if supervise.StopSelf() {
		return
	}
	// Nobody could continue it, so ^Z does what it does to any process that no
	// shell controls: nothing. One that wants to read a terminal that it does
	// not have stays as it is, or it would be stopped again and again.
	if by == syscall.SIGTSTP {
		g.cont()
	}
}

// cont continues the command, in the foreground if stint is there.
func (g *guard) cont() {
	g.check()
	if g.killed {
		return
	}
	g.dog.begin() // it could say nothing meanwhile
	if !g.exited {
		g.terminal.Give(g.child.Pid())
	}
	g.child.Signal(syscall.SIGCONT)
}
