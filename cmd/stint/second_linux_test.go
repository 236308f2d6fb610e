package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/warden"
)

// guardOf waits for the guard process of a stint, other than those of before.
func guardOf(t *testing.T, stint int, before ...int) (pid int) {
	t.Helper()
	eventually(t, "there is a guard process", func() bool {
		pid = 0
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, s := range stats {
			b, _ := os.ReadFile(s)
			f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(s)))
			args, _ := os.ReadFile(filepath.Dir(s) + "/cmdline")
			if len(f) > 1 && f[1] == strconv.Itoa(stint) && bytes.Contains(args, []byte(warden.Argument)) {
				pid = n
			}
		}
		for _, old := range before {
			if old == pid {
				return false
			}
		}
		return pid != 0
	})
	return pid
}

// grownFamily is family with one more that has lost its parent and its variables.
const grownFamily = `setsid sh -c 'trap "" TERM; env -i sleep 100 & echo $! >p3'; ` + family

func (w *world) family() (pids []int) {
	w.t.Helper()
	w.started("w")
	for _, name := range []string{"p1", "p2", "p3"} {
		pids = append(pids, w.pid(name))
	}
	return pids
}

func allGone(pids []int) bool {
	for _, pid := range pids {
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !bytes.Contains(b, []byte(") Z ")) {
			return false
		}
	}
	return true
}

// Nobody but the guard process is left to end the command; it does so before the
// authority lets go.
func TestTheCommandOfAStintThatIsKilledIsEndedByTheStopTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "10s", "--margin", "5s", "--renew", "2s", "--grace", "300ms", "--", "sh", "-c", grownFamily)
	pids := w.family()
	second := guardOf(t, a.Process.Pid)
	db := w.open()
	b := w.start("run", "k", "--", "witness", "w", "10ms")
	w.waiting(db, "k", 1)
	a.signal(syscall.SIGKILL)
	eventually(t, "every process is gone", func() bool { return allGone(pids) })
	if s := w.inspect(db, "k"); !s.Held || s.Grant.Token != 1 || s.Left <= 0 {
		t.Errorf("when its processes were gone, the authority had let go: %+v", s)
	}
	b.expect(0)
	w.stamps("w")
	eventually(t, "the guard process ends", func() bool { return syscall.Kill(second, 0) != nil })
	if !strings.Contains(a.out.String(), "tells the command to stop (TERM)") {
		t.Error("it was not said")
	}
}

func TestTheCommandOfAStintThatIsFrozenIsEndedByTheStopTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "10s", "--margin", "5s", "--renew", "2s", "--", "sh", "-c", grownFamily)
	pids := w.family()
	db := w.open()
	a.signal(syscall.SIGSTOP)
	eventually(t, "every process is gone", func() bool { return allGone(pids) })
	if s := w.inspect(db, "k"); !s.Held || s.Grant.Token != 1 || s.Left <= 0 {
		t.Errorf("when its processes were gone, the authority had let go: %+v", s)
	}
	w.run("run", "k", "--", "witness", "w", "10ms").expect(0)
	w.stamps("w")
	a.signal(syscall.SIGCONT)
	a.expect(76)
}

func TestAGuardProcessThatIsKilledIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "10s", "--margin", "5s", "--renew", "2s", "--", "sh", "-c", grownFamily)
	pids := w.family()
	first := guardOf(t, a.Process.Pid)
	_ = syscall.Kill(first, syscall.SIGKILL)
	guardOf(t, a.Process.Pid, first)
	eventually(t, "it is said", func() bool { return strings.Contains(a.out.String(), "there is another") })
	a.signal(syscall.SIGKILL)
	eventually(t, "every process is gone", func() bool { return allGone(pids) })
	if s := w.inspect(w.open(), "k"); !s.Held || s.Left <= 0 {
		t.Errorf("when its processes were gone, the authority had let go: %+v", s)
	}
}

// A guard process that was frozen hears first what stint has said since.
func TestAGuardProcessThatWasFrozenEndsNoCommandWhoseLeaseIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "4s", "--", "sh", "-c", `echo >ready; until [ -e end ]; do sleep 0.02; done; exit 5`)
	w.content("ready")
	second := guardOf(t, a.Process.Pid)
	_ = syscall.Kill(second, syscall.SIGSTOP)
	frozen := time.Now()
	eventually(t, "the lease is held for longer than the guard process knows", func() bool { return time.Since(frozen) > 5*time.Second })
	_ = syscall.Kill(second, syscall.SIGCONT)
	eventually(t, "it runs again", func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(second) + "/stat")
		return !bytes.Contains(b, []byte(") T "))
	})
	if err := os.WriteFile(w.path("end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.expect(5)
	eventually(t, "it ends with its stint", func() bool { return syscall.Kill(second, 0) != nil })
}

// Nobody is left to end the command then; the kernel does, at once and not at the
// stop time. A guard process that is stopped first can have done nothing.
func TestTheCommandOfAStintThatIsKilledWithItsGuardProcessIsEnded(t *testing.T) {
	files := []string{"", "ulimit -n 60; "}
	for n, frozen := range []bool{true, false, true, false} {
		t.Run(fmt.Sprintf("%d frozen=%v", n, frozen), func(t *testing.T) {
			w := newWorld(t)
			a := w.command(nil, "sh", "-c", files[n/2]+`exec stint run k --ttl 10m --grace 1m -- sh -c 'trap "" TERM; sleep 100 & echo $! >p1; exec witness w'`)
			w.started("w")
			leader, _ := w.lastStart("w", nil)
			group := []int{leader, w.pid("p1")}
			second := guardOf(t, a.Process.Pid)
			if frozen {
				kill(syscall.SIGSTOP, second)
			}
			both := []string{"-9", strconv.Itoa(a.Process.Pid), strconv.Itoa(second)}
			if n >= 2 {
				both[1], both[2] = both[2], both[1]
			}
			defer kill(syscall.SIGKILL, group...)
			if out, err := exec.Command("kill", both...).CombinedOutput(); err != nil {
				t.Fatalf("kill %v: %v, %s", both, err, out)
			}
			eventually(t, "the command's group is gone", func() bool { return allGone(group) })
			eventually(t, "the guard process is gone", func() bool { return allGone([]int{second}) })
			a.expect(-1)
		})
	}
}

// What whoever starts stint has opened for the command is the command's, whatever
// its number.
func TestTheCommandHasTheFilesThatStintWasGiven(t *testing.T) {
	w := newWorld(t)
	p := w.command(nil, "sh", "-c", `echo three >f3; echo four >f4; exec 3<f3 4<f4; exec stint run k -q -- sh -c 'cat <&3; cat <&4; cat'`)
	p.expect(0)
	if got := p.out.String(); got != "three\nfour\n" {
		t.Errorf("it read %q", got)
	}
}
