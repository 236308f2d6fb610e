package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal is the controlling terminal on standard input. A nil Terminal does
// nothing.
//
// Its foreground is moved between stint's own group and the command's only, and
// never taken from a third: a job that runs in the background leaves the
// terminal to whoever has it.
type Terminal struct {
	fd    int
	own   int         // stint's group
	state *term.State // the modes at the start; nil when they were another's
}

// FindTerminal returns nil unless standard input is the controlling terminal.
func FindTerminal() *Terminal {
	t := &Terminal{fd: 0, own: unix.Getpgrp()}
	if _, err := t.foreground(); err != nil {
		return nil
	}
	if t.mine() {
		t.state, _ = term.GetState(t.fd)
	}
	return t
}

// foreground fails where the descriptor is not the controlling terminal.
func (t *Terminal) foreground() (group int, err error) {
	return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
}

// mine tells whether stint's own group has the foreground.
func (t *Terminal) mine() bool {
	fg, err := t.foreground()
	return err == nil && fg == t.own
}

// Give hands the foreground to the command's group, if stint's own has it.
func (t *Terminal) Give(group int) {
	if t != nil && t.mine() {
		t.set(group)
	}
}

// Take gives the foreground back to stint's own group, if the command's has it,
// or if nobody has. It reports whether it did.
func (t *Terminal) Take(from int) bool {
	if t == nil {
		return false
	}
	fg, err := t.foreground()
	if err != nil || fg != from && unix.Kill(-fg, 0) != unix.ESRCH {
		return false
	}
	t.set(t.own)
	return true
}

// Restore sets the modes that the terminal had at the start: a command that
// was killed had no chance to.
func (t *Terminal) Restore() {
	if t != nil && t.state != nil && t.mine() {
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
