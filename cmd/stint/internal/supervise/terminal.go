package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal is the controlling terminal on standard input, while stint's own
// group is in its foreground. A nil Terminal does nothing.
type Terminal struct {
	fd    int
	own   int // stint's group
	state *term.State
}

// FindTerminal returns nil unless standard input is the controlling terminal
// and stint's group is in its foreground: a job in the background must not take
// the terminal from whoever has it.
func FindTerminal() *Terminal {
	const stdin = 0
	own := unix.Getpgrp()
	fg, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	if err != nil || fg != own {
		return nil
	}
	state, err := term.GetState(stdin)
	if err != nil {
		return nil
	}
	return &Terminal{fd: stdin, own: own, state: state}
}

// Take gives the foreground to stint's own group.
func (t *Terminal) Take() {
	if t != nil {
		t.set(t.own)
	}
}

// Give hands the foreground to the command's group, if stint's own has it: a
// job that was continued with bg does not get it.
func (t *Terminal) Give(group int) {
	if t == nil {
		return
	}
	if fg, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && fg == t.own {
		t.set(group)
	}
}

// Restore sets the modes that the terminal had at the start: a command that
// was killed had no chance to.
func (t *Terminal) Restore() {
	if t != nil {
		_ = term.Restore(t.fd, t.state)
	}
}

// set is refused by a signal that stops the caller when it comes from the
// background, unless that signal is ignored.
func (t *Terminal) set(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

// ignoreTerminalStops lets stint set the foreground, and write a line, from the
// background. It must be called after the command was started, which would
// otherwise inherit it.
func ignoreTerminalStops() { signal.Ignore(syscall.SIGTTOU) }

// StopSelf stops stint's whole group, as ^Z does, so that the shell gets its
// prompt back. It returns false, and does nothing, where no shell could continue
// the group: where it is the session leader's own.
//
// The signal is STOP because the runtime keeps its handler for TSTP once it was
// caught, and the kernel would then not stop anything.
func StopSelf() bool {
	leader, err := unix.Getsid(0)
	if err != nil || leader == unix.Getpgrp() || unix.Kill(leader, 0) == unix.ESRCH {
		return false
	}
	return syscall.Kill(0, syscall.SIGSTOP) == nil
}

// IsTerminal tells whether f is one.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
