package supervise

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// startMarked runs a script as stint does: all that it starts carries the mark.
func startMarked(t *testing.T, s Spec, mark, script string, args ...string) *Child {
	t.Helper()
	t.Setenv(markVar, "1.outer "+mark)
	return startWith(t, s, script, args...)
}

func pids(all []Process) map[int]bool {
	m := map[int]bool{}
	for _, p := range all {
		m[p.Pid] = true
	}
	return m
}

// Of those that a guard process looks for, one is in the group, one has left it,
// one has lost its parent too, and one has cleaned its variables.
const everyKind = `sleep 100 & echo $! >"$1/group"
	setsid sleep 100 & echo $! >"$1/session"
	setsid sh -c 'sleep 100 & echo $! >"$0/daemon"' "$1"
	env -i setsid sleep 100 & echo $! >"$1/clean"
	echo done >"$1/ready"; sleep 100`

var kinds = []string{"group", "session", "daemon", "clean"}

func TestAGuardProcessFindsEveryProcessOfTheCommand(t *testing.T) {
	both(t, func(t *testing.T, s Spec) {
		dir := t.TempDir()
		c := startMarked(t, s, "7.mark", everyKind, dir)
		eventually(t, "it has started all", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
		r := NewRemote("7.mark")
		bare := pids(r.Left())
		r.Told(c.Hint())
		told := pids(r.Left())
		for _, kind := range kinds {
			pid := pidIn(t, filepath.Join(dir, kind))
			if !told[pid] {
				t.Errorf("%s, process %d, is not found", kind, pid)
			}
			if kind != "clean" && !bare[pid] {
				t.Errorf("%s, process %d, is not found by its mark alone", kind, pid)
			}
		}
		if told[os.Getpid()] || len(NewRemote("8.other").Left()) > 0 {
			t.Error("others' processes are taken for the command's")
		}
		eventually(t, "all are killed", func() bool { return r.Kill() == 0 })
		next(t, c, Gone)
		for _, kind := range kinds {
			if pid := pidIn(t, filepath.Join(dir, kind)); alive(pid) {
				t.Errorf("%s, process %d, is alive", kind, pid)
			}
		}
	})
}

// What was once seen stays the command's when its parent and its group are gone.
func TestAGuardProcessRemembersWhatItHasSeen(t *testing.T) {
	dir := t.TempDir()
	c := startMarked(t, Spec{treeOnly: true}, "7.mark", `env -i setsid sh -c 'sleep 100 & echo $! >"$0/below"; wait' "$1"`, dir)
	below := pidIn(t, filepath.Join(dir, "below"))
	r := NewRemote("7.mark")
	r.Told(c.Hint())
	if !pids(r.Left())[below] {
		t.Fatalf("process %d is not found below its parent", below)
	}
	c.Signal(syscall.SIGKILL) // the group: the shell that waits has left it
	next(t, c, Exited)
	if !pids(r.Left())[below] {
		t.Errorf("process %d is forgotten", below)
	}
	r.Kill()
	next(t, c, Gone)
}

func TestAGuardProcessLeavesAloneWhoHasGotTheCommandsNumber(t *testing.T) {
	c := start(t, "sleep 100")
	h := c.Hint()
	h.Start--
	h.Cgroup = ""
	r := NewRemote("7.mark")
	r.Told(h)
	if n := r.Kill(); n != 0 {
		t.Errorf("%d processes were killed", n)
	}
	if !alive(c.Pid()) {
		t.Error("another's process was killed")
	}
	c.Kill()
	next(t, c, Gone)
}

// The command is gone when only the process beside it is left, and that one is
// neither signalled nor waited for.
func TestTheProcessBesideTheCommandIsNotItsOwn(t *testing.T) {
	sleep, err := LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	fork := func() (int, error) {
		return syscall.ForkExec(sleep, []string{"sleep", "100"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	}
	first, err := fork()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	c := startWith(t, Spec{Beside: first}, daemon+"sleep 100", file)
	pidIn(t, file)
	if c.scope.hadChildren() {
		t.Error("it is taken for an earlier job, which costs looks")
	}
	_ = syscall.Kill(first, syscall.SIGKILL)
	next(t, c, BesideEnded)
	if c.scope.beside != 0 {
		t.Error("whoever gets its number is overlooked")
	}
	var second int
	if err := c.Replace(func() (int, error) { second, err = fork(); return second, err }); err != nil {
		t.Fatal(err)
	}
	if left := pids(c.Left()); left[second] {
		t.Error("it is among what is left of the command")
	}
	c.Kill()
	next(t, c, Gone)
	if !alive(second) {
		t.Error("it was killed")
	}
	_ = syscall.Kill(second, syscall.SIGKILL)
	_, _ = syscall.Wait4(second, nil, 0, nil)
}
