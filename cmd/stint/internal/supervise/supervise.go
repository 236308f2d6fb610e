// Package supervise runs one command and everything that it starts: in a
// process group of its own, with the terminal if there is one, and with no
// descendant left behind when it says that the command is gone.
//
// On Linux a descendant that leaves the group (setsid, a daemon's double fork)
// is still found: the process becomes a subreaper, so that every orphan below
// it becomes its child, and where it may write its cgroup, the command gets one
// of its own. Elsewhere only the group is watched.
package supervise

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Spec is what to run. Standard input, output and error are inherited.
type Spec struct {
	Path string   // as LookPath found it
	Argv []string // Argv[0] is the name that the command sees
	Env  []string
	// Terminal, if not nil, is handed to the command's group, if stint has it.
	Terminal *Terminal
	// Beside, if not 0, is a child of this process that is none of the
	// command's: it is neither waited for nor signalled. See Child.Replace.
	Beside int
	// Lifeline, if not nil, is the reading end of a pipe: once nobody has its
	// writing end open, the kernel kills the command's group (Linux only). The
	// command inherits it, and the caller may close it.
	Lifeline *os.File

	treeOnly bool // for tests: do without a cgroup, as on most machines
}

// Kind tells events apart.
type Kind int

// The kinds of Event.
const (
	Stopped     Kind = iota // the command itself was stopped, by Event.Signal
	Exited                  // the command itself has ended; descendants may be left
	Gone                    // nothing of it is left; the last event
	BesideEnded             // the process beside it has ended (Linux only)
)

// Event is something that happened to the command.
type Event struct {
	Kind   Kind
	Signal syscall.Signal // Stopped: by which signal
	Code   int            // Exited and Gone: as a shell reports it, see Code
}

// Child is a running command. Its methods are safe for concurrent use; Events
// has one reader, who reads until Gone.
type Child struct {
	pid    int
	start  uint64 // of pid, as the kernel counts
	events chan Event
	gone   chan struct{}

	mu      sync.Mutex // held while a process is reaped or signalled: a number that may be reused is never signalled
	reaped  bool       // the command itself; its group's number may then be reused
	code    int
	killing bool
	over    bool  // nothing is left
	scope   scope // what the platform adds: a cgroup, who else is below this process
}

// Start runs the command. A *StartError says why it could not. A process runs
// one command at a time: as a subreaper it waits for every child it has.
func Start(s Spec) (*Child, error) {
	c := &Child{events: make(chan Event, 16), gone: make(chan struct{})}
	c.scope.beside = s.Beside
	c.scope.prepare(!s.treeOnly)
	line := hand(s.Lifeline)
	pid, err := c.fork(s)
	tie(line, pid)
	ignoreTerminalStops()
	if err != nil {
		s.Terminal.Take(0) // the failed child may have got it
		c.scope.close()
		return nil, startError(s, err)
	}
	c.pid, c.start = pid, startOf(pid) // nobody has reaped it yet
	c.follow()
	go c.reap()
	return c, nil
}

// fork tries once with all that the platform offers and once without.
func (c *Child) fork(s Spec) (int, error) {
	attr := func() *syscall.SysProcAttr {
		a := &syscall.SysProcAttr{Setpgid: true}
		if s.Terminal != nil && s.Terminal.mine() {
			a.Foreground, a.Ctty = true, s.Terminal.fd
		}
		return a
	}
	files := []uintptr{0, 1, 2}
	if a := attr(); c.scope.enter(a) {
		pid, err := syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{Env: s.Env, Files: files, Sys: a})
		if err == nil {
			return pid, nil
		}
		c.scope.close()
	}
	return syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{Env: s.Env, Files: files, Sys: attr()})
}

// Pid is the command's process id, and its group's.
func (c *Child) Pid() int { return c.pid }

// Replace starts another process beside the command. start ends the one before
// and forks it, while nobody reaps.
func (c *Child) Replace(start func() (pid int, err error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scope.beside = 0 // start ends that, whether it succeeds or not
	pid, err := start()
	if err == nil {
		c.scope.beside = pid
	}
	return err
}

// Events tells what happens to the command. It is closed after Gone.
func (c *Child) Events() <-chan Event { return c.events }

// Signal passes sig on to the command's group; once the command itself has
// ended, to everything that it left.
func (c *Child) Signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signalGroup(sig)
	if c.reaped {
		c.signalTree(sig)
	}
}

// SignalStrays passes sig on to what has left the group.
func (c *Child) SignalStrays(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signalStrays(sig)
}

// Terminate asks everything to end: TERM to the group and to those who left
// it, and CONT, since a stopped process acts on nothing.
func (c *Child) Terminate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		c.signalGroup(sig)
		c.signalTree(sig)
	}
}

// Kill ends everything, and goes on killing what is started meanwhile until
// nothing is left. It returns at once after the first round.
func (c *Child) Kill() {
	c.mu.Lock()
	first := !c.killing
	c.killing = true
	c.mu.Unlock()
	c.killOnce()
	if first {
		go c.killUntilGone()
	}
}

func (c *Child) killOnce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.scope.kill()
	c.signalGroup(syscall.SIGKILL)
	c.signalTree(syscall.SIGKILL)
}

// signalGroup needs mu. The group's number belongs to the command for as long
// as the command is not reaped; after that signalTree finds who is left.
func (c *Child) signalGroup(sig syscall.Signal) {
	if !c.reaped || c.groupOnly() && !c.over {
		_ = syscall.Kill(-c.pid, sig)
	}
}

// note records one wait status. It needs mu.
func (c *Child) note(pid int, ws syscall.WaitStatus) (Event, bool) {
	switch {
	case pid == c.scope.beside && !ws.Stopped():
		c.scope.beside = 0 // the number may soon be a process of the command's
		return Event{Kind: BesideEnded}, true
	case pid != c.pid:
		return Event{}, false
	case ws.Stopped():
		return Event{Kind: Stopped, Signal: ws.StopSignal()}, true
	case ws.Exited() || ws.Signaled():
		c.reaped, c.code = true, Code(ws)
		return Event{Kind: Exited, Code: c.code}, true
	}
	return Event{}, false
}

// finish sends Gone. Only the reaper calls it.
func (c *Child) finish() {
	close(c.gone)
	c.mu.Lock()
	c.over = true // from here on every number may be somebody else's
	c.scope.close()
	c.mu.Unlock()
	c.events <- Event{Kind: Gone, Code: c.code}
	close(c.events)
}

// Code is a wait status as a shell reports it: the exit code, or 128 plus the
// signal that ended the command.
func Code(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// StartError says that the command could not be started. Nothing ran.
type StartError struct {
	Command string
	Code    int // 127: not found; 126: found, but it cannot be run
	Err     error
}

func (e *StartError) Error() string {
	if e.Code == CodeNotFound {
		return fmt.Sprintf("%s: command not found", e.Command)
	}
	return fmt.Sprintf("%s: cannot be run: %v", e.Command, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// What a shell returns for a command that it cannot start.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// startError says what the system means: a file that is there, and cannot be
// found, names a program that is not.
func startError(s Spec, err error) *StartError {
	e := &StartError{Command: s.Argv[0], Code: CodeNotExecutable, Err: err}
	_, stat := os.Stat(s.Path)
	switch {
	case errors.Is(err, os.ErrNotExist) && stat == nil:
		e.Err = fmt.Errorf("the program that its first line (#!) names, or its loader, is not there: %w", err)
	case errors.Is(err, os.ErrNotExist):
		e.Code = CodeNotFound
	case errors.Is(err, syscall.ENOEXEC):
		e.Err = fmt.Errorf("it is no program of this machine, and no script whose first line says what runs it (#!/bin/sh): %w", err)
	}
	return e
}
