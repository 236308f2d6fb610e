package supervise

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reap waits for every child there is: the command, and as a subreaper every
// orphan below it. No child left means that no descendant is left either,
// since each of them hangs on a living chain of parents that ends here.
func (c *Child) reap() {
	for c.waitForAny() {
		c.collect()
		if c.onlyOthersLeft() {
			break
		}
	}
	c.finish()
}

// waitForAny blocks until some child has changed, without taking its status:
// that happens under mu, so that no number is signalled after it was freed. It
// returns false when there is no child.
func (c *Child) waitForAny() bool {
	for {
		if c.scope.hadChildren() && c.leaderReaped() {
			// Another's process may outlive the command: do not wait for it.
			time.Sleep(20 * time.Millisecond)
			return true
		}
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return true
		case errors.Is(err, unix.ECHILD):
			return false
		}
	}
}

// collect takes every status that is ready.
func (c *Child) collect() {
	for {
		c.mu.Lock()
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			c.mu.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			c.mu.Unlock()
			return
		}
		ev, ok := c.note(pid, ws)
		c.mu.Unlock()
		if ok {
			c.events <- ev
		}
	}
}

// follow tells apart, from now on, what comes from the command.
func (c *Child) follow() {
	c.scope.leader = c.pid
	if c.scope.hadChildren() {
		go c.lookAround()
	}
}

func (c *Child) leaderReaped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reaped
}

func (c *Child) onlyOthersLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reaped && (c.scope.hadChildren() || c.scope.beside != 0) && c.scope.none()
}

// killUntilGone repeats the kill: a process may be forking while the list of
// processes is read.
func (c *Child) killUntilGone() {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		select {
		case <-c.gone:
			return
		case <-time.After(wait):
			c.killOnce()
		}
	}
}

// groupOnly: here everything that is left can be found one by one.
func (c *Child) groupOnly() bool { return false }

// signalTree signals what has left the group, or, when the group's number may
// have been reused, everything that is left. It needs mu.
func (c *Child) signalTree(sig syscall.Signal) {
	for _, p := range c.scope.left() {
		if c.reaped || p.Group != c.pid {
			p.signal(sig)
		}
	}
}

// signalStrays signals what has left the group. It needs mu.
func (c *Child) signalStrays(sig syscall.Signal) {
	for _, p := range c.scope.left() {
		if p.Group != c.pid {
			p.signal(sig)
		}
	}
}

// Left lists what there is of the command.
func (c *Child) Left() []Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scope.left()
}
