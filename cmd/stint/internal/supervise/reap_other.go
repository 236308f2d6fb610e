//go:build unix && !linux

package supervise

import (
	"errors"
	"syscall"
	"time"
)

// reap waits for the command and then for its group to be empty. A process
// that has left the group is not seen.
func (c *Child) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(c.pid, &ws, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			break
		}
		c.mu.Lock()
		ev, ok := c.note(pid, ws)
		c.mu.Unlock()
		if ok {
			c.events <- ev
		}
		if ev.Kind == Exited {
			break
		}
	}
	for !errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) {
		time.Sleep(10 * time.Millisecond)
	}
	c.finish()
}

func (c *Child) killUntilGone() {
	for {
		select {
		case <-c.gone:
			return
		case <-time.After(10 * time.Millisecond):
			c.killOnce()
		}
	}
}

func (c *Child) follow() {}

// groupOnly: the group is all that can be reached.
func (c *Child) groupOnly() bool { return true }

func (c *Child) signalTree(syscall.Signal) {}

func (c *Child) signalStrays(syscall.Signal) {}

// Left is not known on this system.
func (c *Child) Left() []Process { return nil }

type origin struct{}

type scope struct{ beside int }

func (s *scope) prepare(bool)                    {}
func (s *scope) enter(*syscall.SysProcAttr) bool { return false }
func (s *scope) kill()                           {}
func (s *scope) close()                          {}
