package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Forty stints want one name; each command is two processes, one of which has
// left the group, and both ignore TERM for a while. Whoever holds is ended in one
// of the ways below, some of them on a terminal.
//
// The observers are the kernel, which keeps each witness's lock until it is dead,
// and the witnesses' own stamps.

// deed is a way to end a run, and the exit codes that it may have.
type deed struct {
	name  string
	do    func(stint int, command []int)
	codes []int
}

func kill(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

var deeds = []deed{
	{"kill -9 stint", func(stint int, _ []int) { kill(syscall.SIGKILL, stint) }, []int{-1}},
	{"kill -9 the command", func(_ int, command []int) { kill(syscall.SIGKILL, command...) }, []int{137}},
	{"kill -9 both", func(stint int, command []int) { kill(syscall.SIGKILL, append(command, stint)...) }, []int{-1}},
	{"freeze stint", func(stint int, _ []int) { kill(syscall.SIGSTOP, stint) }, []int{76}},
	{"freeze the command and kill -9 stint", func(stint int, command []int) {
		kill(syscall.SIGSTOP, command...)
		kill(syscall.SIGKILL, stint)
	}, []int{-1}},
	{"tell stint to stop", func(stint int, _ []int) { kill(syscall.SIGTERM, stint) }, []int{143}},
}

const two = `setsid witness c 1h & exec witness w 1h`

func TestNoTwoCommandsOfOneNameAreAliveHoweverTheirStintsEnd(t *testing.T) {
	const stints = 40
	w := newWorld(t)
	// The lease is short and its margin wide, since a machine that runs other
	// tests as well takes its time to kill.
	args := []string{"run", "k", "--ttl", "1200ms", "--margin", "600ms", "--grace", "50ms", "-q", "--", "sh", "-c", two}
	byPid := map[int]*process{}
	for i := range stints {
		p := &terminal{}
		if i%5 == 0 {
			p = w.startOnTerminal("stint", args...)
		} else {
			p.process = w.start(args...)
		}
		byPid[p.Process.Pid] = p.process
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	order := slices.Concat(deeds, deeds, deeds, deeds, deeds, deeds, deeds)[:stints]
	random.Shuffle(stints, func(i, j int) { order[i], order[j] = order[j], order[i] })

	var frozen sync.WaitGroup
	ended := map[int]bool{} // commands, by the number of their witness
	for n, d := range order {
		holder, command := w.runningCommand(byPid, ended)
		ended[command[0]] = true
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond) // hits it anywhere
		d.do(holder.Process.Pid, command)
		check := func() {
			eventually(t, "the run ends: "+d.name, holder.ended)
			if code := holder.ProcessState.ExitCode(); !slices.Contains(d.codes, code) {
				t.Errorf("run %d, %s: exit code %d; want %v", n, d.name, code, d.codes)
			}
		}
		if d.name == "freeze stint" {
			frozen.Go(func() { // it wakes when its command is gone, and must have nothing left to do
				eventually(t, "the guard process ends the command", func() bool { return allGone(command) })
				kill(syscall.SIGCONT, holder.Process.Pid)
				check()
			})
			continue
		}
		check()
	}
	frozen.Wait()
	if n := w.stamps("w"); n != stints {
		t.Errorf("%d commands ran; want %d", n, stints)
	}
	w.stamps("c")
	for _, p := range byPid {
		if out := p.out.String(); strings.Contains(out, "panic") || strings.Contains(out, "DATA RACE") {
			t.Errorf("a stint said:\n%s", out)
		}
	}
}

// runningCommand waits for the next command, and says which stint runs it.
func (w *world) runningCommand(byPid map[int]*process, ended map[int]bool) (holder *process, command []int) {
	w.t.Helper()
	eventually(w.t, "a command runs", func() bool {
		leader, parent := w.lastStart("w", ended)
		if leader == 0 {
			return false
		}
		child, _ := w.lastStart("c", ended)
		if child == 0 {
			return false
		}
		holder, command = byPid[parent], []int{leader, child}
		if holder != nil {
			ended[child] = true
		}
		return holder != nil
	})
	return holder, command
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
