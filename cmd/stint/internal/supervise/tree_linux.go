package supervise

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

type origin struct {
	start  uint64 // with Pid it names one process for as long as the host is up
	zombie bool
}

// scope is the command's part of the process tree.
type scope struct {
	group  cgroup
	others others // what this process had before the command, and what came of it
	leader int    // the command, once it was started
	beside int    // a child that is not the command's; 0: none
}

// prepare makes this process the one that orphans fall to.
func (s *scope) prepare(withCgroup bool) {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	all := slices.DeleteFunc(processes(), func(p Process) bool { return s.beside != 0 && p.Pid == s.beside })
	s.others = findOthers(all, os.Getpid(), syscall.Getpgrp())
	if withCgroup {
		s.group = newCgroup()
	}
}

func (s *scope) enter(a *syscall.SysProcAttr) bool {
	if s.group.dir == nil {
		return false
	}
	a.UseCgroupFD, a.CgroupFD = true, int(s.group.dir.Fd())
	return true
}

func (s *scope) kill()             { s.group.kill() }
func (s *scope) close()            { s.group.close() }
func (s *scope) hadChildren() bool { return s.others.there }

// left lists the living descendants of this process, apart from those that do
// not come from the command.
func (s *scope) left() []Process {
	all := processes()
	s.others.follow(all, s.leader)
	children := byParent(all)
	var left []Process
	queue := []int{os.Getpid()}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, p := range children[parent] {
			if s.others.has(p) || p.Pid == s.beside {
				continue
			}
			queue = append(queue, p.Pid)
			if !p.zombie {
				left = append(left, p)
			}
		}
	}
	return left
}

// none tells for certain that nothing of the command is left, if it is the reaper
// who asks. Whatever is left hangs on a child of this process, which stays in
// the table, dead or alive, until the reaper takes it; anything further down may
// come and go while the table is read.
func (s *scope) none() bool {
	all := processes()
	s.others.follow(all, s.leader)
	for _, p := range byParent(all)[os.Getpid()] {
		if !s.others.has(p) && p.Pid != s.beside {
			return false
		}
	}
	return true
}

func byParent(all []Process) map[int][]Process {
	children := map[int][]Process{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	return children
}

// processes reads the process table; what vanishes meanwhile is left out.
func processes() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []Process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, err := readProcess(pid); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}

var errStat = errors.New("unreadable process status")

// readProcess reads /proc/PID/stat. The name is in parentheses and may hold
// anything, parentheses too: the fields begin after the last one.
func readProcess(pid int) (Process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (Process, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Process{}, errStat
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 {
		return Process{}, errStat
	}
	parent, err1 := strconv.Atoi(string(f[1]))
	group, err2 := strconv.Atoi(string(f[2]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Process{}, errStat
	}
	state := f[0][0]
	return Process{
		Pid: pid, Parent: parent, Group: group, Name: string(b[open+1 : end]),
		origin: origin{start: start, zombie: state == 'Z' || state == 'X'},
	}, nil
}

// signal reaches this very process: the number is pinned first, and then its
// start is compared, since a descendant's own parent may have reaped it.
func (p Process) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			_ = syscall.Kill(p.Pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, err := readProcess(p.Pid); err == nil && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
