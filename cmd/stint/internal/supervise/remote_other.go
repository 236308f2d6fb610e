//go:build unix && !linux

package supervise

import "syscall"

// Hint is what a guard process has to know: here, the group.
func (c *Child) Hint() Hint { return Hint{Pid: c.pid} }

func startOf(int) uint64 { return 0 }

// Terminate asks the command's group to end. It returns 1 if there is one.
func (r *Remote) Terminate() int {
	n := r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGCONT)
	return n
}

// Kill ends the command's group. It returns 1 if there is one.
func (r *Remote) Kill() int { return r.signal(syscall.SIGKILL) }

func (r *Remote) signal(sig syscall.Signal) int {
	if r.hint.Pid == 0 || syscall.Kill(-r.hint.Pid, sig) != nil {
		return 0
	}
	return 1
}

// Left says whether there is anything: on this system, one unnamed process.
func (r *Remote) Left() []Process {
	if r.signal(0) == 0 {
		return nil
	}
	return []Process{{Pid: r.hint.Pid}}
}

// Forget removes what the command leaves behind: nothing.
func (r *Remote) Forget() {}
