package sqlitelease

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// The test binary starts itself as further processes. childEnv says what the
// child does, its arguments are path, name and waiter.
const childEnv = "SQLITELEASE_TEST_CHILD"

func child() int {
	path, name, who := os.Args[1], os.Args[2], os.Args[3]
	ctx := context.Background()
	if os.Getenv(childEnv) == "serve" {
		return serveAuthority(path)
	}
	a, err := Open(ctx, path, Options{})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	defer a.Close()
	switch os.Getenv(childEnv) {
	case "hold":
		g, err := a.Acquire(ctx, ask(name, who, 6*time.Second))
		fmt.Println("granted", g.Token, err)
	case "transaction": // takes the write lock and stays inside
		if err := a.writer.conn.begin(func() bool { return true }); err != nil {
			fmt.Println("error", err)
		}
		fmt.Println("inside")
		_, _ = io.ReadAll(os.Stdin)
		a.writer.conn.rollback()
		fmt.Println("outside")
	case "churn":
		fmt.Println("started")
		for i := 0; ; i++ {
			g, err := a.Acquire(ctx, ask(name, fmt.Sprintf("%s-%d", who, i), time.Minute))
			if errors.Is(err, authority.ErrHeld) { // by one that was killed
				if err := takeAway(a, name); err == nil {
					continue
				}
			}
			fmt.Println("granted", g.Token, err)
			_ = a.Release(ctx, g) // shows as a held name
		}
	case "wait":
		return childWaits(ctx, a, name, who)
	}
	_, _ = io.ReadAll(os.Stdin)
	return 0
}

// childWaits stands in line until it is served, and releases at once.
func childWaits(ctx context.Context, a *Authority, name, who string) int {
	for try := 0; ; try++ {
		r := ask(name, fmt.Sprintf("%s-%d", who, try), time.Minute)
		r.Waiter, r.Holder = who, who
		g, err := a.Acquire(ctx, r)
		if err == nil {
			fmt.Println("granted", g.Token, try+1)
			fmt.Println("released", a.Release(ctx, g))
			return 0
		}
		if _, ok := err.(*authority.HeldError); !ok {
			fmt.Println("error", err)
			return 1
		}
		if try == 0 {
			fmt.Println("waiting")
		}
		if err := a.Wait(ctx, r); err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
}

// takeAway releases whatever grant is there.
func takeAway(a *Authority, name string) error {
	s, err := a.Inspect(context.Background(), name)
	if err != nil || !s.Held {
		return err
	}
	return a.Release(context.Background(), authority.Grant{Grant: s.Grant, Name: name, Length: s.Length})
}

// process is a child of this test.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func start(t *testing.T, what, path, name, who string) *process {
	t.Helper()
	p, out := begin(t, what, path, name, who)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { p.end(read) })
	return p
}

// startRaw starts a child that serves its authority over its streams.
func startRaw(t *testing.T, path string) (*process, io.WriteCloser, io.ReadCloser) {
	p, out := begin(t, "serve", path, "", "")
	t.Cleanup(func() {
		read := make(chan struct{})
		close(read)
		p.end(read)
	})
	return p, p.in, out
}

func begin(t *testing.T, what, path, name, who string) (*process, io.ReadCloser) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path, name, who)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{t, cmd, in, make(chan string, 100_000)}, out
}

// end kills the child by its own id, and waits until it is gone.
func (p *process) end(read <-chan struct{}) {
	p.in.Close()
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-read
	_ = p.cmd.Wait() // its exit status was wanted by nobody
}

// says waits for a line with this beginning.
func (p *process) says(prefix string) string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok || !strings.HasPrefix(line, prefix) {
			p.t.Fatalf("the child said %q, want %q", line, prefix)
		}
		return line
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the child did not say %q", prefix)
		return ""
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	if s != syscall.SIGSTOP {
		return
	}
	eventually(p.t, "a stopped child", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return os.IsNotExist(err) || strings.Contains(string(b), ") T ")
	})
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

func inLine(t *testing.T, a *Authority, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d in line", n), func() bool {
		s, err := a.Inspect(context.Background(), name)
		return err == nil && s.Waiters == n
	})
}
