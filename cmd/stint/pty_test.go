package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// inForeground says whether it has the terminal, and then waits for a line.
func inForeground() {
	fg, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	fmt.Printf("foreground %v %v\n", err == nil && fg == unix.Getpgrp(), err)
	var line string
	fmt.Scanln(&line)
	fmt.Printf("read %q\n", line)
}

// awaitFile FILE ends when FILE is there. A shell's loop will not do where ^Z is
// typed: between vfork and exec a shell cannot be stopped, but its child can.
func awaitFile() {
	fmt.Println("begun")
	for {
		if _, err := os.Stat(os.Args[1]); err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// terminal is a process on a terminal of its own.
type terminal struct {
	*process
	pty *os.File
}

// startOnTerminal runs a program as the leader of a session with a terminal.
func (w *world) startOnTerminal(program string, args ...string) *terminal {
	w.t.Helper()
	p := &process{t: w.t, Cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.Dir = w.dir
	p.Env = append(os.Environ(), "STINT_AUTHORITY="+w.url(), "TERM=xterm")
	f, err := pty.StartWithSize(p.Cmd, &pty.Winsize{Rows: 24, Cols: 200})
	if err != nil {
		w.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			_, _ = p.out.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(p.done)
		_ = p.Wait()
		select {
		case <-read:
		case <-time.After(limit): // something of it still has the terminal
			w.t.Errorf("%s %q ended, but its terminal is still in use", program, args)
		}
	}()
	w.t.Cleanup(func() {
		if !p.ended() {
			_ = p.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(limit):
				_ = p.Process.Kill()
			}
		}
		f.Close()
		<-p.done
		if w.t.Failed() {
			w.t.Logf("%s %q:\n%q", program, args, p.out.String())
		}
	})
	return &terminal{p, f}
}

// shows waits until the terminal has shown something.
func (m *terminal) shows(pattern string) {
	m.t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(m.t, pattern+" is shown", func() bool { return re.MatchString(m.out.String()) })
}

func (m *terminal) types(s string) {
	m.t.Helper()
	if _, err := m.pty.WriteString(s); err != nil {
		m.t.Fatal(err)
	}
}

func TestTheCommandHasTheTerminal(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("stint", "run", "k", "--", "inforeground")
	m.shows("foreground true <nil>")
	m.types("hello\n")
	m.shows(`read "hello"`)
	m.expect(0)
}

func TestInterruptAtTheTerminalEndsTheCommand(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("stint", "run", "k", "--", "inforeground")
	m.shows("foreground true")
	m.types("\x03")
	m.expect(130)
}

// On a terminal nobody has to name an authority.
func TestOnATerminalTheDefaultFileIsTaken(t *testing.T) {
	w := newWorld(t)
	t.Setenv("STATE_DIRECTORY", w.dir)
	m := w.startOnTerminal("sh", "-c", "unset STINT_AUTHORITY; exec stint run k true")
	m.shows(`stint: authority: sqlite .*leases\.db \(this host only\)`)
	m.expect(0)
}

func TestAWaitShowsOneLiveLineAndCleansItUp(t *testing.T) {
	w := newWorld(t)
	holder := w.start("run", "k", "--", "sleep", "100")
	db := w.open()
	eventually(t, "k is held", func() bool { return w.inspect(db, "k").Held })
	m := w.startOnTerminal("stint", "run", "k", "--", "true")
	m.shows(`\rstint: waiting \ds for k: held by .* pid \d+ \(sleep\) \(token 1\) since \S+, until \S+ unless renewed\x1b\[K\r`)
	m.types("\x03")
	m.expect(130)
	out := m.out.String()
	if !strings.HasSuffix(out, "\r\x1b[K") {
		t.Errorf("the line is left on the terminal: %q", out)
	}
	if n := strings.Count(out, "\n"); n != 1 { // the authority's
		t.Errorf("%d lines were left: %q", n, out)
	}
	if n := w.inspect(db, "k").Waiters; n != 0 {
		t.Errorf("%d left in line", n)
	}
	holder.signal(syscall.SIGTERM)
	holder.expect(143)
}

// ^Z stops the command and stint, so that the shell has its prompt again; fg
// continues both, and the command has the terminal again.
func TestStopAndContinueAtTheTerminal(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("sh", "-c", `set -m; stint run k -- inforeground; echo "stopped $?"; fg >/dev/null; echo "end $?"`)
	m.shows("foreground true")
	m.types("\x1a")
	m.shows(`stopped 1\d\d`)
	m.types("hello\n")
	m.shows(`read "hello"`)
	m.shows("end 0")
	m.expect(0)
}

// A job that was stopped for longer than its lease is over when it is
// continued.
func TestAStopThatOutlastsTheLeaseEndsTheCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.startOnTerminal("sh", "-c", `set -m; stint run k --ttl 5s -- inforeground; echo "stopped $?"; `+
		`stint run k -q -- echo the next one ran; fg >/dev/null; echo "end $?"`)
	m.shows("foreground true")
	m.types("\x1a")
	m.shows("the next one ran")
	m.shows("end 76")
	if strings.Contains(m.out.String(), "read ") {
		t.Error("the command went on after its lease was over")
	}
	m.expect(0)
}

// Where no shell could continue it, ^Z does nothing, as to any process there.
func TestStopWithoutAShellDoesNothing(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("stint", "run", "k", "--", "inforeground")
	m.shows("foreground true")
	m.types("\x1a")
	m.shows("the command was stopped")
	m.types("hello\n")
	m.shows(`read "hello"`)
	m.expect(0)
}

// bg: the command goes on without the terminal, and stint does not take it from
// whoever has it by then.
func TestAJobInTheBackgroundLeavesTheTerminalAlone(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("sh", "-c", `set -m; stint run k -- awaitfile done; bg >/dev/null; inforeground; echo "end $?"`)
	m.shows("begun")
	m.types("\x1a")
	m.shows("foreground true")
	if err := os.WriteFile(w.path("done"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := w.open()
	eventually(t, "the job in the background is over", func() bool { return !w.inspect(db, "k").Held })
	m.types("hello\n")
	m.shows(`read "hello"`)
	m.shows("end 0")
	m.expect(0)
}

// A job that was started in the background gets the terminal when it is brought
// to the foreground.
func TestFgGivesTheCommandTheTerminal(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("sh", "-c", `set -m; stint run k -- inforeground & read line; jobs >jobs; fg >/dev/null; echo "end $?"`)
	m.shows("foreground false")
	m.shows("the command was stopped")
	m.types("go\n")
	m.types("hello\n")
	m.shows(`read "hello"`)
	m.shows("end 0")
	m.expect(0)
}

func TestReleaseAsksAtTheTerminal(t *testing.T) {
	w := newWorld(t)
	holder := w.start("run", "k", "--", "sleep", "100")
	db := w.open()
	eventually(t, "k is held", func() bool { return w.inspect(db, "k").Held })
	m := w.startOnTerminal("stint", "release", "k", "--token", "1", "--reason", "test")
	m.shows(`the holder can still write until it notices`)
	m.shows(`end it\? \[y/N\]`)
	m.types("n\n")
	m.expect(64)
	if !w.inspect(db, "k").Held {
		t.Fatal("it was released although the answer was no")
	}
	m = w.startOnTerminal("stint", "release", "k", "--token", "1", "--reason", "test")
	m.shows(`end it\? \[y/N\]`)
	m.types("y\n")
	m.expect(0)
	holder.expect(76)
}
