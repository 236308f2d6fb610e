package sqlitelease

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestThirtyProcessesOnOneNameAreAllServed counts them, and how often they were
// woken: a release wakes one, not all. It reports how far the order of service is
// from the order of arrival.
func TestThirtyProcessesOnOneNameAreAllServed(t *testing.T) {
	const processes = 30
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Hour))
	all := make([]*process, processes)
	for i := range all {
		all[i] = start(t, "wait", path, "x", fmt.Sprintf("w%d", i))
		all[i].says("waiting")
	}
	inLine(t, a, "x", processes)
	if err := a.Release(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	last, outOfOrder, tries := int64(g.Token), 0, 0
	seen := map[int64]bool{}
	for i, p := range all {
		var token int64
		var n int
		if _, err := fmt.Sscanf(p.says("granted"), "granted %d %d", &token, &n); err != nil {
			t.Fatal(err)
		}
		tries += n
		if line := p.says("released"); line != "released <nil>" {
			t.Errorf("process %d: %s", i, line)
		}
		if seen[token] {
			t.Errorf("token %d was handed out twice", token)
		}
		seen[token] = true
		if token < last {
			outOfOrder++
		}
		last = token
	}
	t.Logf("%d of %d served, %d out of order, %d tries in all", len(seen), processes, outOfOrder, tries)
	if tries > 3*processes { // two are needed: to stand in line, and to be granted
		t.Errorf("%d tries of %d processes: they wake each other for nothing", tries, processes)
	}
	inLine(t, a, "x", 0)
}

func TestAKilledHolderIsSucceededByTheNextInLine(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	p := start(t, "hold", path, "x", "n")
	p.says("granted 1 <nil>")
	w := start(t, "wait", path, "x", "w")
	w.says("waiting")
	inLine(t, a, "x", 1)
	p.signal(syscall.SIGKILL)
	w.says("granted 2")
}

func TestKilledWaitersDelayNobody(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Hour))
	for i := range 3 {
		p := start(t, "wait", path, "x", fmt.Sprintf("dead%d", i))
		p.says("waiting")
		p.signal(syscall.SIGKILL)
		_ = p.cmd.Wait() // killed; its pipe has no reader from here on
	}
	w := start(t, "wait", path, "x", "alive")
	w.says("waiting")
	if err := a.Release(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	w.says("granted")
	w.says("released")
	inLine(t, a, "x", 0)
}

func TestAStoppedWaiterAtTheHeadIsSkipped(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Hour))
	stopped := start(t, "wait", path, "x", "stopped")
	stopped.says("waiting")
	next := start(t, "wait", path, "x", "next")
	next.says("waiting")
	stopped.signal(syscall.SIGSTOP)
	start := time.Now()
	if err := a.Release(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	next.says("granted")
	t.Logf("served %v after the release, the stated lateness is %v", time.Since(start), a.Lateness())
	stopped.signal(syscall.SIGCONT) // and it is served in its turn
	stopped.says("granted")
}

func TestPipesAreRemoved(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	mustAcquire(t, a, ask("x", "n", time.Hour))
	dead := start(t, "wait", path, "x", "dead")
	dead.says("waiting")
	dead.signal(syscall.SIGKILL)
	_ = dead.cmd.Wait()
	if n := pipeCount(t, path); n != 1 {
		t.Fatalf("%d pipes, want the dead process's", n)
	}
	old := time.Now().Add(-time.Hour)
	for _, p := range glob(t, path) {
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	b := openAt(t, path, Options{})
	r := ask("x", "m", time.Minute)
	r.Waiter = "w"
	if _, err := b.Acquire(t.Context(), r); err == nil {
		t.Fatal("granted a held name")
	}
	eventually(t, "only the living pipe", func() bool { return pipeCount(t, path) == 1 && glob(t, path)[0] == b.queue.pipe })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := pipeCount(t, path); n != 0 {
		t.Errorf("%d pipes after Close", n)
	}
}

func glob(t *testing.T, path string) []string {
	t.Helper()
	all, err := filepath.Glob(path + "-wake/*")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pipeCount(t *testing.T, path string) int { return len(glob(t, path)) }
