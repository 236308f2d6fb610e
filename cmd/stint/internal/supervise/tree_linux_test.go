package supervise

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A daemon's double fork: the process leaves the group and the session, and its
// parent ends.
const daemon = `setsid sh -c 'sleep 100 & echo $! >"$1"' sh "$1" & wait; `

func TestAProcessThatLeftTheGroupIsFoundAndEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := start(t, daemon+"sleep 100", file)
	stray := pidIn(t, file)
	found := false
	for _, p := range c.Left() {
		if p.Pid == stray && p.Group != c.Pid() {
			found = true
		}
	}
	if !found {
		t.Errorf("process %d is not among %v", stray, c.Left())
	}
	c.Terminate()
	next(t, c, Gone)
	if alive(stray) {
		t.Errorf("process %d outlived Gone", stray)
	}
}

func TestTheCommandIsNotGoneWhileADaemonOfItsLives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := start(t, daemon, file)
	next(t, c, Exited)
	stray := pidIn(t, file)
	if left := c.Left(); len(left) != 1 || left[0].Pid != stray {
		t.Errorf("left: %v; want process %d", left, stray)
	}
	c.Signal(syscall.SIGTERM)
	next(t, c, Gone)
	if alive(stray) {
		t.Errorf("process %d outlived Gone", stray)
	}
}

// both runs a test with a cgroup, where one can be had, and with the process
// tree alone.
func both(t *testing.T, f func(*testing.T, Spec)) {
	t.Run("cgroup", func(t *testing.T) { f(t, Spec{}) })
	t.Run("tree", func(t *testing.T) { f(t, Spec{treeOnly: true}) })
}

func TestKillEndsWhatLeftTheGroup(t *testing.T) {
	both(t, func(t *testing.T, s Spec) {
		file := filepath.Join(t.TempDir(), "pid")
		c := startWith(t, s, daemon+"sleep 100", file)
		stray := pidIn(t, file)
		c.Kill()
		next(t, c, Gone)
		if alive(stray) {
			t.Errorf("process %d outlived Gone", stray)
		}
	})
}

func TestKillOvertakesACommandThatForksAllTheTime(t *testing.T) {
	both(t, func(t *testing.T, s Spec) {
		dir := t.TempDir()
		c := startWith(t, s, `i=0; while :; do i=$((i+1)); setsid sleep 100 & [ $i = 50 ] && echo $! >"$1/pid"; done`, dir)
		pidIn(t, dir+"/pid")
		c.Kill()
		next(t, c, Gone)
		if left := c.Left(); len(left) > 0 {
			t.Errorf("left after Gone: %v", left)
		}
	})
}

// A shell that started something and then exec'ed stint has given stint a child
// that is not the command's.
func TestAChildThatWasThereBeforeIsLeftAlone(t *testing.T) {
	sleep, err := LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	old, err := syscall.ForkExec(sleep, []string{"sleep", "100"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(old, syscall.SIGKILL)
		_, _ = syscall.Wait4(old, nil, 0, nil)
	}()
	file := filepath.Join(t.TempDir(), "pid")
	c := start(t, daemon+"exit 4", file)
	next(t, c, Exited)
	pidIn(t, file)
	c.Kill()
	if code := next(t, c, Gone).Code; code != 4 {
		t.Errorf("code %d; want 4", code)
	}
	if !alive(old) {
		t.Error("the older child was killed")
	}
}

// And what it left behind falls to stint later, as the command's own orphans do:
// in the group of the shell, or in one of its own.
func TestAnOrphanOfAnEarlierJobIsNotTheCommands(t *testing.T) {
	shell, err := LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for what, script := range map[string]string{
		"group":   `until [ -e "$0/go" ]; do sleep 0.01; done; sleep 100 & echo $! >"$0/orphan"`,
		"session": `setsid sh -c 'until [ -e "$0/go" ]; do sleep 0.01; done; sleep 100 & echo $! >"$0/orphan"' "$0" & echo $! >"$0/below"; wait`,
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			job, err := syscall.ForkExec(shell, []string{"sh", "-c", script, dir}, &syscall.ProcAttr{Env: os.Environ()})
			if err != nil {
				t.Fatal(err)
			}
			if what == "session" {
				below := pidIn(t, dir+"/below")
				eventually(t, "it has a session", func() bool { g, _ := syscall.Getpgid(below); return g == below })
			}
			c := start(t, `setsid sleep 100 & echo $! >"$1"; exit 4`, dir+"/own")
			next(t, c, Exited)
			own := pidIn(t, dir+"/own")
			if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			orphan := pidIn(t, dir+"/orphan")
			defer func() {
				_ = syscall.Kill(orphan, syscall.SIGKILL)
				_, _ = syscall.Wait4(orphan, nil, 0, nil)
			}()
			eventually(t, "the job is gone", func() bool { return !alive(job) })
			if left := c.Left(); len(left) != 1 || left[0].Pid != own {
				t.Errorf("left: %v; want process %d", left, own)
			}
			c.Signal(syscall.SIGTERM)
			if code := next(t, c, Gone).Code; code != 4 {
				t.Errorf("code %d; want 4", code)
			}
			if alive(own) || !alive(orphan) {
				t.Errorf("the command's own orphan is alive: %v; the earlier job's: %v", alive(own), alive(orphan))
			}
		})
	}
}

// Process 1 of a container, where somebody used docker exec: what is brought in
// from outside has no parent here, and its orphans fall to process 1.
func TestProcess1KeepsNoLeaseForWhatCameFromOutside(t *testing.T) {
	p := func(pid, parent, group int) Process {
		return Process{Pid: pid, Parent: parent, Group: group, origin: origin{start: uint64(pid)}}
	}
	group := syscall.Getpgrp() // one that there is, and so is not forgotten
	o := findOthers([]Process{p(1, 0, 1)}, 1, 1)
	o.follow([]Process{p(1, 0, 1), p(7, 1, 7), p(8, 7, 7), p(20, 0, group), p(21, 20, group)}, 7)
	for pid, want := range map[int]bool{1: false, 7: false, 8: false, 20: true, 21: true} {
		if got := o.has(p(pid, 0, 0)); got != want {
			t.Errorf("process %d is another's: %v; want %v", pid, got, want)
		}
	}
	// 20 has gone; 21 and its child 22 fell to process 1, as did 8, the command's.
	o.follow([]Process{p(1, 0, 1), p(8, 1, 7), p(9, 1, 9), p(21, 1, group), p(22, 1, group)}, 7)
	for pid, want := range map[int]bool{8: false, 9: false, 21: true, 22: true} {
		if got := o.has(p(pid, 0, 0)); got != want {
			t.Errorf("orphan %d is another's: %v; want %v", pid, got, want)
		}
	}
}

func TestAProcessNameMayHoldAnything(t *testing.T) {
	p, err := parseStat(42, []byte("42 (a) R (b) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0\n"))
	want := Process{Pid: 42, Parent: 7, Group: 8, Name: "a) R (b", origin: origin{start: 12345}}
	if err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 1", "42 )x( S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"} {
		if p, err := parseStat(42, []byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, p)
		}
	}
}

func TestTheCgroupFolderIsFound(t *testing.T) {
	const unified = "29 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	const hybrid = "28 24 0:24 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n30 28 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n31 28 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	const container = "29 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	for _, c := range []struct{ what, mounts, own, want string }{
		{"unified", unified, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"hybrid", hybrid, "3:cpu:/x\n0::/job\n", "/sys/fs/cgroup/unified/job"},
		{"root of the hierarchy", hybrid, "0::/\n", "/sys/fs/cgroup/unified"},
		{"container", container, "0::/docker/abc/job\n", "/sys/fs/cgroup/job"},
		{"outside of the mount", container, "0::/other\n", ""},
		{"version 1 only", "31 28 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "3:cpu:/x\n", ""},
		{"no mount", "", "0::/job\n", ""},
	} {
		if got := cgroupFolder(c.mounts, c.own); got != c.want {
			t.Errorf("%s: %q; want %q", c.what, got, c.want)
		}
	}
}

// Where a cgroup can be had, the command is in it, and it is gone afterwards.
func TestTheCommandsCgroupIsRemoved(t *testing.T) {
	c := start(t, "sleep 100")
	path := c.scope.group.path
	if path == "" {
		t.Log("no cgroup can be made here: the process tree has to do")
	} else if b, err := os.ReadFile(filepath.Join(path, "cgroup.procs")); err != nil || !strings.Contains(string(b), strconv.Itoa(c.Pid())) {
		t.Errorf("the command's cgroup holds %q, %v; want process %d", b, err, c.Pid())
	}
	c.Kill()
	next(t, c, Gone)
	if _, err := os.Stat(path); path != "" && !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", path, err)
	}
}
