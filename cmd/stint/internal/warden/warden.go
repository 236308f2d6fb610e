// Package warden is the guard process: a second stint that ends the command when
// the first one cannot, because it was killed, or because it is frozen while the
// stop time comes.
//
// It is a child of stint in a session of its own, so that no terminal and no
// signal to stint's group reaches it, and does nothing but wait. Stint tells it
// over a pipe what it knows: which processes are the command's, and the stop
// time. The pipe's end is stint's death. A guard process that dies is replaced
// while stint lives; when both are killed at once, the kernel kills the command's
// group on Linux, since both hold its lifeline.
package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
)

// Orders are what stint tells its guard process. What a line leaves out stays as
// it was.
type Orders struct {
	Name  string          `json:"name,omitempty"`  // of the lease, for people
	Mark  string          `json:"mark,omitempty"`  // of everything that the command starts: the grant
	JSON  bool            `json:"json,omitempty"`  // how to speak
	Grace time.Duration   `json:"grace,omitempty"` // from TERM to KILL
	Lead  time.Duration   `json:"lead,omitempty"`  // from stint's KILL to the stop time
	Hint  *supervise.Hint `json:"hint,omitempty"`  // the command, once it was started

	Stop authority.Instant `json:"stop,omitempty"` // the stop time, on the host's boot clock
	Told bool              `json:"told,omitempty"` // stint has told the command to stop
	Done bool              `json:"done,omitempty"` // nothing of it is left
}

// Argument is what the first argument of a guard process is.
const Argument = "guard-of"

// Guard is a guard process, as stint sees it. It is safe for concurrent use.
type Guard struct {
	mu      sync.Mutex
	orders  Orders
	pipe    *os.File    // nil: there is none, and no process
	process *os.Process // by a handle where the system has one: its number may be another's by now

	line, held *os.File // the lifeline's two ends: the command gets line, both stints have held
}

// Start starts a guard process for a command that has not been started yet.
func Start(o Orders) (*Guard, error) {
	g := &Guard{orders: o}
	var err error
	if g.line, g.held, err = os.Pipe(); err == nil {
		if err = g.fork(); err != nil {
			g.drop()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the guard process cannot be started: %w", err)
	}
	return g, nil
}

// Lifeline is for supervise.Spec: the command's group does not outlive this
// process and its guard process both.
func (g *Guard) Lifeline() *os.File { return g.line }

// drop lets go of the lifeline, and first of the end that the kernel would act on.
func (g *Guard) drop() {
	_ = g.line.Close()
	_ = g.held.Close()
}

// fork needs mu, or to be alone.
func (g *Guard) fork() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = w.Close()
		return err
	}
	defer null.Close()
	path, err := self()
	if err != nil {
		_ = w.Close()
		return err
	}
	process, err := os.StartProcess(path, []string{os.Args[0], Argument, g.orders.Name}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{Setsid: true}, Files: []*os.File{null, null, os.Stderr, r, g.held},
	})
	if err != nil {
		_ = w.Close()
		return err
	}
	g.process, g.pipe = process, w
	if err := g.send(g.orders); err != nil {
		g.end() // it died at once; nobody has heard of its number
		return err
	}
	return nil
}

// Pid is the guard process's number; 0: there is none.
func (g *Guard) Pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0
	}
	return g.process.Pid
}

// Tell passes on what change sets. An error says that the guard process is dead
// or does not read: Renew it.
func (g *Guard) Tell(change func(*Orders)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.orders)
	return g.send(g.orders)
}

// Acted tells whether the guard process may have told the command to stop, by
// what it was told last: then stint was frozen for too long.
func (g *Guard) Acted(now authority.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now >= timesOf(g.orders).term
}

var errGone = errors.New("there is no guard process")

// send writes one line, and waits for nobody: a guard process that is frozen must
// not hold up its stint. It needs mu.
func (g *Guard) send(o Orders) error {
	if g.pipe == nil {
		return errGone
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	conn, err := g.pipe.SyscallConn()
	if err != nil {
		return err
	}
	failed := conn.Write(func(fd uintptr) bool {
		var n int
		n, err = unix.Write(int(fd), line)
		if err == nil && n < len(line) {
			err = unix.EAGAIN
		}
		return true
	})
	return errors.Join(failed, err)
}

// Renew kills the guard process and starts another.
func (g *Guard) Renew() (pid int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
	if err := g.fork(); err != nil {
		return 0, err
	}
	return g.process.Pid, nil
}

// Close ends the guard process: nothing of the command is left, or it was never
// started. Whoever reaps all of stint's children has ended.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.send(Orders{Done: true})
	g.end()
	g.drop()
}

// end kills the guard process, which has nothing to lose, and takes its status,
// unless the reaper of all of stint's children has done so. It needs mu.
func (g *Guard) end() {
	if g.pipe == nil {
		return
	}
	_ = g.process.Kill()
	_, _ = g.process.Wait()
	_ = g.pipe.Close()
	g.pipe, g.process = nil, nil
}
