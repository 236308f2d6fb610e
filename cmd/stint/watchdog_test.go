package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/notify"
)

// told waits until stint has said something.
func (p *process) told(what string) {
	p.t.Helper()
	eventually(p.t, "it is said: "+what, func() bool { return strings.Contains(p.out.String(), what) })
}

func (w *world) make(name string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// passes waits until a time is over: that nothing has happened in it is the test.
func passes(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
}

// silentFamily gives signs of life until "silent" is there; its processes go on,
// one of them outside of the group, and ignore TERM.
const silentFamily = `trap "" TERM; beats silent & sleep 100 & echo $! >p1; setsid sleep 100 & echo $! >p2; exec witness w`

func TestACommandThatFallsSilentIsGoneBeforeItsLeaseIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--watchdog", "4s", "--grace", "200ms", "--", "sh", "-c", silentFamily)
	w.started("w")
	w.content("silent-ready")
	p1, p2 := w.pid("p1"), w.pid("p2")
	db := w.open()
	b := w.start("run", "k", "--", "witness", "w", "10ms")
	w.waiting(db, "k", 1)
	passes(4500 * time.Millisecond) // signs of life, for longer than the bound
	if a.ended() {
		t.Fatal("a command that gives signs of life was ended")
	}
	w.make("silent")
	a.expect(76)
	a.told("gave no sign of life for")
	gone(t, p1)
	gone(t, p2)
	b.expect(0)
	if n := w.stamps("w"); n != 2 {
		t.Errorf("%d commands ran; want 2", n)
	}
}

func TestTheFirstSignOfLifeIsDueFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--watchdog", "200ms", "--", "sleep", "100")
	a.expect(76)
	if w.inspect(w.open(), "k").Held {
		t.Error("the lease is still held")
	}
}

func TestAFrozenCommandIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--watchdog", "4s", "--", "sh", "-c", "echo $$ >pid; exec beats silent")
	w.content("silent-ready")
	pid := w.pid("pid")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.expect(76)
	gone(t, pid)
}

func TestACommandThatSaysThatItIsStuckIsEndedAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--watchdog", "1h", "--", "beats", "silent", "WATCHDOG=trigger")
	a.expect(76)
	a.told("said itself that it is stuck")
}

func TestACommandMayAskForMoreTimeAndForLessButNotForAnotherBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("silent")
	begun := time.Now()
	a := w.start("run", "k", "--watchdog", "3s", "--", "beats", "silent",
		"MAINPID=1", "WATCHDOG_USEC=3600000000", "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=6000000")
	a.expect(76)
	if d := time.Since(begun); d < 6*time.Second {
		t.Errorf("it was ended after %v", d)
	}
	a.told("MAINPID is ignored")
	a.told("WATCHDOG_USEC of 1h0m0s is ignored")
	b := w.start("run", "k", "--watchdog", "1h", "--", "beats", "silent", "WATCHDOG_USEC=200000")
	b.expect(76)
}

// A stint that was frozen for longer than the bound, but not than its lease, has
// heard nothing: that is its own silence, not the command's.
func TestAStintThatWasFrozenHearsWhatWasSaidBeforeItJudges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "1m", "--watchdog", "4s", "--", "beats", "silent")
	w.content("silent-ready")
	a.signal(syscall.SIGSTOP)
	passes(4500 * time.Millisecond)
	a.signal(syscall.SIGCONT)
	passes(4500 * time.Millisecond)
	if a.ended() {
		t.Errorf("it was ended")
	}
	w.make("silent")
	a.expect(76)
}

// Stint as a service of systemd: it is ready when the command runs, asks for time
// while it waits, and answers for itself alone.
func TestAManagerHearsThatStintIsReadyWhenItsCommandRuns(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--", "sh", "-c", "echo >held; until [ -e go ]; do sleep 0.01; done")
	w.content("held")
	heard := make(chan notify.Message, 100)
	dir, err := os.MkdirTemp("", "n") // a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	srv, err := notify.Listen(filepath.Join(dir, "n"), func(m notify.Message) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	t.Setenv("WATCHDOG_USEC", "300000")
	b := w.start("run", "k", "--", "sh", "-c", `echo "${NOTIFY_SOCKET-none} ${WATCHDOG_USEC-none}" >seen; until [ -e end ]; do sleep 0.01; done`)
	hear := func(what string, f func(notify.Message) bool) {
		t.Helper()
		for deadline := time.After(limit); ; {
			select {
			case m := <-heard:
				if what != "ready" && m.Ready {
					t.Errorf("ready before: %s", what)
				}
				if f(m) {
					return
				}
			case <-deadline:
				t.Fatalf("not heard: %s", what)
			}
		}
	}
	hear("a sign of life, and more time", func(m notify.Message) bool { return m.Beat && m.Extend > 0 })
	w.make("go")
	a.expect(0)
	hear("ready", func(m notify.Message) bool { return m.Ready && strings.Contains(m.Status, "holding k") })
	if got := w.content("seen"); got != "none none" {
		t.Errorf("the command found the variables of stint's manager: %s", got)
	}
	for range 3 {
		hear("a sign of life", func(m notify.Message) bool { return m.Beat })
	}
	w.make("end")
	b.expect(0)
}
