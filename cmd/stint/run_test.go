package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

func TestTermReachesTheCommandAndTheLeaseIsFreeOnlyWhenItIsGone(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--", "witness", "w", "1h")
	w.started("w")
	b := w.start("run", "k", "--", "witness", "w", "10ms")
	w.waiting(w.open(), "k", 1)
	a.signal(syscall.SIGTERM)
	a.expect(143)
	b.expect(0)
	if n := w.stamps("w"); n != 2 {
		t.Errorf("%d commands ran; want 2", n)
	}
}

func TestASignalEndsTheWaitAtOnceAndLeavesNoWaiter(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			w := newWorld(t)
			a := w.start("run", "k", "--", "sleep", "100")
			db := w.open()
			eventually(t, "k is held", func() bool { return w.inspect(db, "k").Held })
			b := w.start("run", "k", "--", "touch", "started")
			w.waiting(db, "k", 1)
			b.signal(sig)
			b.expect(code)
			if n := w.inspect(db, "k").Waiters; n != 0 {
				t.Errorf("%d left in line", n)
			}
			a.signal(syscall.SIGTERM)
			a.expect(143)
			if _, err := os.Stat(w.path("started")); err == nil {
				t.Error("the command was started although the wait was ended")
			}
		})
	}
}

// Even while the authority does not answer: then the place in its line runs out
// by itself.
func TestASignalEndsTheWaitAtOnceWhileTheAuthorityIsStalled(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "1m", "--", "sleep", "100")
	db := w.open()
	eventually(t, "k is held", func() bool { return w.inspect(db, "k").Held })
	b := w.start("run", "k", "--ttl", "1m", "--", "true")
	w.waiting(db, "k", 1)
	unlock := w.lockFile()
	b.signal(syscall.SIGINT)
	sent := time.Now()
	b.expect(130)
	// A request may take 9 s with this lease; an end that waits for it takes that.
	if d := time.Since(sent); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	unlock()
	a.signal(syscall.SIGTERM)
	a.expect(143)
}

func TestOtherSignalsArePassedOn(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--", "sh", "-c", `trap "echo 1 >usr1" USR1; trap "echo 2 >usr2; exit 5" USR2; echo 0 >ready; while :; do sleep 0.02; done`)
	w.content("ready")
	a.signal(syscall.SIGUSR1)
	w.content("usr1")
	a.signal(syscall.SIGUSR2)
	a.expect(5)
}

// Whoever ends stint cannot know that its command is stopped.
func TestTermEndsAStoppedCommand(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--", "sh", "-c", `kill -STOP $$; exit 9`)
	eventually(t, "stint says that it was stopped", func() bool { return strings.Contains(a.out.String(), "the command was stopped") })
	a.signal(syscall.SIGTERM)
	a.expect(143)
}

// nohup stint run: what is told to ignore HUP goes on ignoring it.
func TestAnIgnoredHangUpStaysIgnored(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "outer", "--", "sh", "-c", `trap "" HUP; stint run k -- sh -c 'kill -HUP $$; echo 1 >survived'`)
	a.expect(0)
	w.content("survived")
}

// A command that starts a daemon and ends is not over: the daemon works on
// under the lease.
func TestTheLeaseIsKeptUntilTheLastProcessIsGone(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--", "sh", "-c", `(sleep 100 & echo $! >pid); exit 3`)
	daemon := w.pid("pid")
	eventually(t, "stint says what is left", func() bool { return strings.Contains(a.out.String(), "left 1 running") })
	w.run("run", "-n", "k", "true").expect(75)
	a.signal(syscall.SIGTERM)
	a.expect(3)
	gone(t, daemon)
	w.run("run", "-n", "k", "true").expect(0)
}

// family is a command of several processes, one of which has left the group,
// and all of which ignore TERM.
const family = `trap "" TERM; sleep 100 & echo $! >p1; setsid sleep 100 & echo $! >p2; exec witness w`

func TestALeaseThatWasBrokenEndsEveryProcess(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "6s", "--", "sh", "-c", family)
	w.started("w")
	p1, p2 := w.pid("p1"), w.pid("p2")
	w.run("release", "k", "--token", "1", "--reason", "test", "--yes").expect(0)
	a.expect(76)
	gone(t, p1)
	gone(t, p2)
	w.run("run", "k", "--", "witness", "w", "10ms").expect(0)
	w.stamps("w")
}

// lockFile holds SQLite's write lock, as a process that hangs in a transaction
// does: no lease of the file can be renewed.
func (w *world) lockFile() (unlock func()) {
	w.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+w.path("l.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := db.Conn(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		w.t.Fatal(err)
	}
	var once sync.Once
	unlock = func() {
		once.Do(func() {
			_, _ = c.ExecContext(context.Background(), "ROLLBACK")
			_ = c.Close()
			_ = db.Close()
		})
	}
	w.t.Cleanup(unlock)
	return unlock
}

// The authority cannot be reached: every process is gone before the authority
// lets go, and so before a rival starts.
func TestALeaseThatCannotBeKeptEndsEveryProcessBeforeTheAuthorityLetsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "10s", "--margin", "5s", "--renew", "2s", "--", "sh", "-c", family)
	w.started("w")
	p1, p2 := w.pid("p1"), w.pid("p2")
	db := w.open()
	b := w.start("run", "k", "--", "witness", "w", "10ms")
	w.waiting(db, "k", 1)
	unlock := w.lockFile()
	eventually(t, "every process is gone", func() bool {
		return syscall.Kill(p1, 0) != nil && syscall.Kill(p2, 0) != nil
	})
	if s := w.inspect(db, "k"); !s.Held || s.Grant.Token != 1 || s.Left <= 0 {
		t.Errorf("when its processes were gone, the authority had let go: %+v", s)
	}
	unlock()
	a.expect(76)
	if !strings.Contains(a.out.String(), "the command is told to stop (TERM)") {
		t.Error("it was not said that the command is told to stop")
	}
	b.expect(0)
	if n := w.stamps("w"); n != 2 {
		t.Errorf("%d commands ran; want 2", n)
	}
}

func TestTermComesBeforeTheStopTimeAndIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "8s", "--grace", "2500ms", "--", "onterm", "told")
	eventually(t, "the command is ready", func() bool { _, err := os.Stat(w.path("told.ready")); return err == nil })
	db := w.open()
	unlock := w.lockFile()
	var at int64
	eventually(t, "TERM came", func() bool {
		b, _ := os.ReadFile(w.path("told"))
		_, err := fmt.Sscan(string(b), &at)
		return err == nil
	})
	s := w.inspect(db, "k")
	stop := int64((authority.BootClock{}).Now()) + int64(s.Left) - int64(1600*time.Millisecond) // the margin
	if !s.Held || at >= stop {
		t.Errorf("TERM came %v after the stop time", time.Duration(at-stop))
	}
	// A renewal that succeeds now comes too late: half of the command may have
	// stopped already. This one does not end unless it is killed.
	unlock()
	a.expect(76)
}

// A shell whose child works on alone is what loses data under a wrapper that
// signals the shell only.
func TestBothProcessesOfAShellAreGoneWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "10s", "--margin", "5s", "--renew", "2s", "--", "sh", "-c", `sleep 100 & echo $! >p1; sleep 100`)
	p1 := w.pid("p1")
	db := w.open()
	w.lockFile()
	eventually(t, "the child is gone", func() bool { return syscall.Kill(p1, 0) != nil })
	if s := w.inspect(db, "k"); !s.Held || s.Grant.Token != 1 {
		t.Errorf("it outlived the lease: %+v", s)
	}
	a.expect(76)
}

// A stint that was frozen past its lease kills its command at once when it
// wakes, before anything else; meanwhile stint ok says no.
func TestAStintThatWasFrozenKillsItsCommandWhenItWakes(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "4s", "--", "sh", "-c", `echo $STINT_SOCKET >socket; exec witness w`)
	w.started("w")
	socket := w.content("socket")
	a.signal(syscall.SIGSTOP)
	w.run("run", "k", "--", "true").expect(0) // waits until the lease has run out
	ok := w.start("ok")
	ok.expect(64)
	t.Setenv("STINT_SOCKET", socket)
	w.run("ok").expect(76)
	a.signal(syscall.SIGCONT)
	a.expect(76)
	if n := w.stamps("w"); n != 1 {
		t.Errorf("%d commands ran; want 1", n)
	}
	if lock, err := os.OpenFile(w.path("w.lock"), os.O_RDWR, 0); err != nil {
		t.Error(err)
	} else {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Errorf("the command is still alive: %v", err)
		}
		lock.Close()
	}
}

// Several stints want one name, some are ended early: never two commands.
func TestNoTwoCommandsOfOneNameAreEverAlive(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for n := range 5 {
				p := w.start("run", "k", "-q", "--", "witness", "w", "40ms")
				if (n+i)%3 == 0 {
					time.Sleep(30 * time.Millisecond) // hit it anywhere: waiting, starting, running
					_ = p.Process.Signal(syscall.SIGTERM)
				}
				select {
				case <-p.done:
				case <-time.After(limit):
					t.Errorf("stint did not end within %v", limit)
					return
				}
				// -1: by the signal itself, before stint had come to catch it.
				if c := p.ProcessState.ExitCode(); c != 0 && c != 143 && c != -1 {
					t.Errorf("exit code %d", c)
				}
			}
		})
	}
	all.Wait()
	if n := w.stamps("w"); n < 5 {
		t.Errorf("only %d commands ran", n)
	}
}

// A log reader that went away must not end stint beside a running command.
func TestStintOutlivesTheReaderOfItsMessages(t *testing.T) {
	w := newWorld(t)
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := w.startTo(wr, "run", "k", "--ttl", "6s", "--", "sh", "-c", "exec witness w 2>/dev/null")
	wr.Close()
	w.started("w")
	r.Close()
	w.run("release", "k", "--token", "1", "--reason", "test", "--yes").expect(0)
	p.expect(76)
}
