package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Forty stints want one name, a dozen at a time (all at once with -long); each command is two processes, one of which has
// left the group. Whoever holds is ended in one of the ways below, some of them on
// a terminal.
//
// The observers are the kernel, which keeps each witness's lock until it is dead,
// the witnesses' own stamps, and the authority: when stint is dead or frozen, its
// command has to be gone before the authority lets go.

// deed is a way to end a run, how many runs are ended by it, and their exit code.
type deed struct {
	name  string
	do    func(stint int, command []int)
	runs  int
	code  int
	alone bool // stint can do nothing any more
}

func kill(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

var deeds = []deed{
	{"kill -9 stint", func(stint int, _ []int) { kill(syscall.SIGKILL, stint) }, 8, -1, true},
	{"kill -9 both", func(stint int, command []int) { kill(syscall.SIGKILL, append(command, stint)...) }, 5, -1, true},
	{"freeze stint", func(stint int, _ []int) { kill(syscall.SIGSTOP, stint) }, 2, 76, true},
	{"freeze the command and kill -9 stint", func(stint int, command []int) {
		kill(syscall.SIGSTOP, command...)
		kill(syscall.SIGKILL, stint)
	}, 4, -1, true},
	{"kill -9 the command", func(_ int, command []int) { kill(syscall.SIGKILL, command...) }, 12, 137, false},
	{"tell stint to stop", func(stint int, _ []int) { kill(syscall.SIGTERM, stint) }, 9, 143, false},
}

// runOut is how many leases of dead stints run out. The others are given back for
// them once their command is gone, which saves the time.
const runOut = 2

const two = `setsid witness c 1h & exec witness w 1h`

func TestNoTwoCommandsOfOneNameAreAliveHoweverTheirStintsEnd(t *testing.T) {
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var order []deed
	for _, d := range deeds {
		order = append(order, slices.Repeat([]deed{d}, d.runs)...)
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	stints := map[int]*process{}
	more := func() bool { return w.startMore(stints, len(order)) }
	db := w.open()
	done := map[*process]deed{}
	known := map[int]bool{} // witnesses that were dealt with
	dead := 0
	for n := 0; ; n++ {
		holder, command := w.runningCommand(stints, more, known)
		if holder == nil {
			break
		}
		d := order[n]
		done[holder] = d
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond) // hits it anywhere
		before := w.inspect(db, "k")
		d.do(holder.Process.Pid, command)
		eventually(t, "the command is gone: "+d.name, func() bool { return allGone(command) })
		after := w.inspect(db, "k")
		its := strings.Contains(before.Holder, fmt.Sprintf(" pid %d ", holder.Process.Pid))
		held := its && after.Held && after.Grant == before.Grant
		if d.alone && its && before.Left > chaosTTL/2 && !held {
			t.Errorf("run %d, %s: when its processes were gone, the authority had let go: it said %+v before, %+v after", n, d.name, before, after)
		}
		kill(syscall.SIGCONT, holder.Process.Pid) // who was frozen must have nothing left to do
		eventually(t, "the run ends: "+d.name, holder.ended)
		if d.code == -1 && held {
			if dead++; dead > runOut {
				_ = db.Release(context.Background(), authority.Grant{Grant: after.Grant, Name: "k", Length: after.Length})
			}
		}
	}
	w.checkEnds(stints, done)
	if n := w.stamps("w"); n < len(done) {
		t.Errorf("%d commands ran, and %d were dealt with", n, len(done))
	}
	w.stamps("c")
}

// chaosTTL is long enough for a busy machine.
const chaosTTL = 8 * time.Second

// startMore starts stints on one name, every fifth on a terminal, until a crowd is
// alive or all have been started. It reports whether any is left. The margin is
// wide, since a machine that runs other tests as well takes its time to kill.
func (w *world) startMore(stints map[int]*process, all int) bool {
	args := []string{"run", "k", "--ttl", chaosTTL.String(), "--margin", "4s", "--grace", "50ms", "-q", "--", "sh", "-c", two}
	crowd, alive := 12, 0
	if *long {
		crowd = all
	}
	for _, p := range stints {
		if !p.ended() {
			alive++
		}
	}
	for ; alive < crowd && len(stints) < all; alive++ {
		var p *process
		if len(stints)%5 == 0 {
			p = w.startOnTerminal("stint", args...).process
		} else {
			p = w.start(args...)
		}
		stints[p.Process.Pid] = p
	}
	return alive > 0
}

// checkEnds compares the exit codes. On a machine that is busy, so short a lease
// may be lost without anybody's deed; that is an end in order, too, but not for
// many.
func (w *world) checkEnds(stints map[int]*process, done map[*process]deed) {
	w.t.Helper()
	lost := 0
	for _, p := range stints {
		d, dealt := done[p]
		code, out := p.ProcessState.ExitCode(), p.out.String()
		switch {
		case dealt && code == d.code:
		case code == 76 && strings.Contains(out, "was lost"):
			lost++
		default:
			w.t.Errorf("%q: exit code %d; want %d\n%s", d.name, code, d.code, out)
		}
		if strings.Contains(out, "panic") || strings.Contains(out, "DATA RACE") {
			w.t.Errorf("a stint said:\n%s", out)
		}
	}
	if lost > len(stints)/2 {
		w.t.Errorf("%d of %d leases were lost without anybody's deed", lost, len(stints))
	}
}

// runningCommand waits for the next command, and says which stint runs it; nil
// when all stints have ended.
func (w *world) runningCommand(stints map[int]*process, more func() bool, known map[int]bool) (holder *process, command []int) {
	w.t.Helper()
	for end := time.Now().Add(3 * limit); more(); time.Sleep(2 * time.Millisecond) {
		leader, parent := w.lastStart("w", known)
		child, _ := w.lastStart("c", known)
		if leader != 0 && child != 0 && stints[parent] != nil {
			known[leader], known[child] = true, true
			return stints[parent], []int{leader, child}
		}
		if time.Now().After(end) {
			w.t.Fatalf("no command runs within %v", 3*limit)
		}
	}
	return nil, nil
}

// lastStart is the witness that has started last, and its parent, unless it is
// known already.
func (w *world) lastStart(file string, known map[int]bool) (pid, parent int) {
	b, _ := os.ReadFile(w.path(file))
	for line := range strings.Lines(string(b)) {
		var what string
		var p int
		if _, err := fmt.Sscan(line, &what, &p); err == nil && what == "start" {
			pid = p
		}
	}
	if pid == 0 || known[pid] {
		return 0, 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	_, _ = fmt.Sscan(rest, new(string), &parent)
	return pid, parent
}
