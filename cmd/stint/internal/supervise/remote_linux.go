package supervise

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Hint is what a guard process has to know to find everything of the command.
func (c *Child) Hint() Hint {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Hint{Pid: c.pid, Start: c.start, Cgroup: c.scope.group.path}
	for _, p := range c.scope.left() {
		if p.Group != c.pid && len(h.Strays) < mostStrays {
			h.Strays = append(h.Strays, [2]uint64{uint64(p.Pid), p.start})
		}
	}
	return h
}

// startOf is when a process was started; 0: it is not there.
func startOf(pid int) uint64 {
	p, err := readProcess(pid)
	if err != nil {
		return 0
	}
	return p.start
}

// Left lists the command's living processes: its group, those that carry the
// mark, its cgroup, those that were told, and all that is below any of them.
func (r *Remote) Left() []Process {
	all := processes()
	inGroup, inCgroup := r.groupHolds(all), r.cgroup()
	for _, s := range r.hint.Strays {
		r.seen[int(s[0])] = s[1]
	}
	children := byParent(all)
	there := map[int]bool{}
	var left []Process
	var add func(Process)
	add = func(p Process) {
		if there[p.Pid] {
			return
		}
		there[p.Pid] = true
		r.seen[p.Pid] = p.start
		if !p.zombie {
			left = append(left, p)
		}
		for _, c := range children[p.Pid] {
			add(c)
		}
	}
	for _, p := range all {
		start, seen := r.seen[p.Pid]
		if seen && start == p.start || inGroup && p.Group == r.hint.Pid || inCgroup[p.Pid] || r.marked(p.Pid) {
			add(p)
		}
	}
	return left
}

// groupHolds tells whether the command's number still names its group: not when
// another process has got it.
func (r *Remote) groupHolds(all []Process) bool {
	if r.hint.Pid == 0 {
		return false
	}
	for _, p := range all {
		if p.Pid == r.hint.Pid && p.start != r.hint.Start {
			return false
		}
	}
	return true
}

// marked reads the variables that a process was started with.
func (r *Remote) marked(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if words, ok := strings.CutPrefix(string(v), markVar+"="); ok {
			for word := range strings.FieldsSeq(words) {
				if word == r.mark {
					return true
				}
			}
		}
	}
	return false
}

// cgroup lists the processes of the command's cgroup and of those below it.
func (r *Remote) cgroup() map[int]bool {
	pids := map[int]bool{}
	if r.hint.Cgroup == "" {
		return pids
	}
	_ = filepath.WalkDir(r.hint.Cgroup, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			b, _ := os.ReadFile(path)
			for _, f := range bytes.Fields(b) {
				if pid, err := strconv.Atoi(string(f)); err == nil {
					pids[pid] = true
				}
			}
		}
		return nil
	})
	return pids
}

// Terminate asks everything to end, and lets it run to do so. It returns how
// many there are.
func (r *Remote) Terminate() int {
	left := r.Left()
	for _, p := range left {
		p.signal(syscall.SIGTERM)
		p.signal(syscall.SIGCONT)
	}
	return len(left)
}

// Kill ends everything that is there, once: what is being forked meanwhile needs
// a further call. It returns how many there were.
func (r *Remote) Kill() int {
	if r.hint.Cgroup != "" {
		(&cgroup{path: r.hint.Cgroup}).end()
	}
	left := r.Left()
	for _, p := range left {
		p.signal(syscall.SIGKILL)
	}
	return len(left)
}

// Forget removes what the command leaves behind when its parent cannot.
func (r *Remote) Forget() {
	if r.hint.Cgroup != "" {
		(&cgroup{path: r.hint.Cgroup}).remove()
	}
}
