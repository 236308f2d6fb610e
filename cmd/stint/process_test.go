package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// world is a folder with an authority, and the processes that use it.
type world struct {
	t   *testing.T
	dir string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t, t.TempDir()}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }
func (w *world) url() string             { return "sqlite://" + w.path("l.db") }

// process is a running stint.
type process struct {
	t *testing.T
	*exec.Cmd
	out  lockedBuffer // standard output and error
	done chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs stint with the world's authority.
func (w *world) start(args ...string) *process { w.t.Helper(); return w.startTo(nil, args...) }

// startTo runs stint with another standard error.
func (w *world) startTo(stderr *os.File, args ...string) *process {
	w.t.Helper()
	return w.command(stderr, "stint", args...)
}

// command runs a program that becomes stint.
func (w *world) command(stderr *os.File, program string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, Cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.Dir = w.dir
	p.Env = append(os.Environ(), "STINT_AUTHORITY="+w.url())
	p.Stdout, p.Stderr = &p.out, &p.out
	if stderr != nil {
		p.Stderr = stderr
	}
	// A daemon that outlives a broken stint must not hold the test.
	p.WaitDelay = time.Second
	if err := p.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.Wait()
	}()
	w.t.Cleanup(func() {
		if !p.ended() {
			_ = p.Process.Signal(syscall.SIGCONT)
			_ = p.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(limit):
				_ = p.Process.Kill()
				<-p.done
			}
		}
		if w.t.Failed() {
			w.t.Logf("%s %q:\n%s", program, args, p.out.String())
		}
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// code waits for the end.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("stint did not end within %v", limit)
		return -1
	}
}

func (p *process) expect(code int) {
	p.t.Helper()
	if got := p.code(); got != code {
		p.t.Errorf("exit code %d; want %d", got, code)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// run runs stint to its end.
func (w *world) run(args ...string) *process {
	w.t.Helper()
	p := w.start(args...)
	p.code()
	return p
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// content waits for a file that ends in a line break, and returns it.
func (w *world) content(name string) string {
	w.t.Helper()
	var b []byte
	eventually(w.t, name+" is written", func() bool {
		b, _ = os.ReadFile(w.path(name))
		return bytes.HasSuffix(b, []byte("\n"))
	})
	return strings.TrimSpace(string(b))
}

// pid waits for a process id that a command wrote.
func (w *world) pid(name string) (pid int) {
	w.t.Helper()
	if _, err := fmt.Sscan(w.content(name), &pid); err != nil {
		w.t.Fatal(err)
	}
	return pid
}

// gone fails if the process is there. A zombie is not: it does nothing.
func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

// open opens the authority from outside.
func (w *world) open() authority.Authority {
	w.t.Helper()
	a, err := authority.Open(context.Background(), w.url())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { a.Close() })
	return a
}

func (w *world) inspect(a authority.Authority, name string) authority.State {
	w.t.Helper()
	s, err := a.Inspect(context.Background(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// waiting waits until n stand in line.
func (w *world) waiting(a authority.Authority, name string, n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d wait for %s", n, name), func() bool { return w.inspect(a, name).Waiters == n })
}

// stamps reads what witnesses wrote. It fails on an overlap, by the lock or by
// the clock.
func (w *world) stamps(name string) (starts int) {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	first, last, order := map[int]int64{}, map[int]int64{}, []int{}
	for line := range strings.Lines(string(b)) {
		var what string
		var pid int
		var at int64
		if _, err := fmt.Sscan(line, &what, &pid, &at); err != nil {
			continue // cut off by KILL
		}
		switch what {
		case "overlap":
			w.t.Errorf("process %d was started while another was alive", pid)
		case "start":
			first[pid] = at
			order = append(order, pid)
		}
		last[pid] = max(last[pid], at)
	}
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; last[a] >= first[b] {
			w.t.Errorf("process %d was alive at %d, and process %d started at %d", a, last[a], b, first[b])
		}
	}
	return len(order)
}

// started waits for a witness.
func (w *world) started(name string) {
	w.t.Helper()
	eventually(w.t, name+" has a start", func() bool {
		b, _ := os.ReadFile(w.path(name))
		return bytes.Contains(b, []byte("alive "))
	})
}
