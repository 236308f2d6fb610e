package supervise

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a cgroup v2 of the command's own, below the one that stint runs
// in. It ends a whole tree in one write, even one that forks faster than its
// processes can be listed. Where it cannot be had, the process tree has to do.
type cgroup struct {
	dir  *os.File
	path string
}

const cgroupPrefix = "stint-"

func newCgroup() cgroup {
	parent := ownCgroup()
	if parent == "" {
		return cgroup{}
	}
	sweepCgroups(parent)
	path := filepath.Join(parent, cgroupPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(path, 0o755); err != nil {
		return cgroup{}
	}
	dir, err := os.Open(path)
	if err != nil || unix.Faccessat(int(dir.Fd()), "cgroup.kill", unix.W_OK, 0) != nil {
		_ = os.Remove(path)
		return cgroup{}
	}
	return cgroup{dir, path}
}

func (g *cgroup) kill() {
	if g.dir != nil {
		g.end()
	}
}

func (g *cgroup) end() { _ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0) }

// close removes the group. The kernel lets go of a dead process a moment after
// it was reaped, so the first try may find the group busy.
func (g *cgroup) close() {
	if g.dir == nil {
		return
	}
	_ = g.dir.Close()
	g.remove()
	*g = cgroup{}
}

func (g *cgroup) remove() {
	for range 20 {
		if err := syscall.Rmdir(g.path); err != syscall.EBUSY {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sweepCgroups removes the empty groups of stint processes that were killed.
// Rmdir refuses a group with a process in it.
func sweepCgroups(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, path := range found {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), cgroupPrefix))
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = syscall.Rmdir(path)
		}
	}
}

// ownCgroup is the folder of the cgroup v2 that this process is in, or "".
func ownCgroup() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return cgroupFolder(string(mounts), string(own))
}

// cgroupFolder joins the cgroup2 mount of mountinfo with the "0::" line of
// /proc/self/cgroup. In a container the mount's root may lie below the
// hierarchy's: what it does not reach has no folder here.
func cgroupFolder(mountinfo, own string) string {
	var path string
	for line := range strings.Lines(own) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return ""
	}
	lines := bufio.NewScanner(strings.NewReader(mountinfo))
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		f := strings.Fields(before)
		if !ok || len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root, point := f[3], f[4]
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(point, rel)
	}
	return ""
}
