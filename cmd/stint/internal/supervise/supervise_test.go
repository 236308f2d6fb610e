package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

// start runs a command of the shell. One runs at a time: no test is parallel.
func start(t *testing.T, script string, args ...string) *Child {
	t.Helper()
	return startWith(t, Spec{}, script, args...)
}

func startWith(t *testing.T, s Spec, script string, args ...string) *Child {
	t.Helper()
	path, err := LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	s.Path, s.Argv, s.Env = path, append([]string{"sh", "-c", script, "sh"}, args...), os.Environ()
	c, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// next waits for an event of the kind.
func next(t *testing.T, c *Child, k Kind) Event {
	t.Helper()
	deadline := time.After(limit)
	for {
		select {
		case ev, ok := <-c.Events():
			if !ok {
				t.Fatalf("the events ended before one of kind %d", k)
			}
			if ev.Kind == k {
				return ev
			}
		case <-deadline:
			c.Kill()
			t.Fatalf("no event of kind %d within %v; left: %v", k, limit, c.Left())
		}
	}
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

// pidIn reads a process id that a script wrote.
func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	eventually(t, file+" is written", func() bool {
		b, _ := os.ReadFile(file)
		_, err := fmt.Sscanf(string(b), "%d\n", &pid)
		return err == nil && strings.HasSuffix(string(b), "\n")
	})
	return pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestTheExitCodeIsAShells(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143, "kill -INT $$": 130,
	} {
		if got := next(t, start(t, script), Gone).Code; got != want {
			t.Errorf("%s: %d; want %d", script, got, want)
		}
	}
}

func TestASignalReachesTheWholeGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := start(t, `sleep 100 & echo $! >"$1"; sleep 100`, file)
	child := pidIn(t, file)
	c.Signal(syscall.SIGTERM)
	if code := next(t, c, Gone).Code; code != 143 {
		t.Errorf("code %d; want 143", code)
	}
	if alive(child) {
		t.Errorf("process %d of the group is left", child)
	}
}

func TestGoneComesOnlyWhenNothingIsLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := start(t, `sleep 100 & echo $! >"$1"; exit 3`, file)
	if ev := next(t, c, Exited); ev.Code != 3 {
		t.Errorf("code %d; want 3", ev.Code)
	}
	child := pidIn(t, file)
	select {
	case ev := <-c.Events():
		t.Fatalf("event %+v while process %d is left", ev, child)
	case <-time.After(50 * time.Millisecond):
	}
	c.Signal(syscall.SIGTERM) // now to what is left
	if ev := next(t, c, Gone); ev.Code != 3 {
		t.Errorf("code %d; want the command's own, 3", ev.Code)
	}
	if alive(child) {
		t.Errorf("process %d is left", child)
	}
}

func TestKillEndsAStoppedCommand(t *testing.T) {
	c := start(t, `kill -STOP $$; sleep 100`)
	if ev := next(t, c, Stopped); ev.Signal != syscall.SIGSTOP {
		t.Errorf("stopped by %v", ev.Signal)
	}
	c.Kill()
	if code := next(t, c, Gone).Code; code != 137 {
		t.Errorf("code %d; want 137", code)
	}
}

func TestTerminateReachesAStoppedCommand(t *testing.T) {
	c := start(t, `kill -STOP $$; sleep 100`)
	next(t, c, Stopped)
	c.Terminate()
	if code := next(t, c, Gone).Code; code != 143 {
		t.Errorf("code %d; want 143", code)
	}
}

func TestNotFoundAndNotExecutableAreToldApart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for command, want := range map[string]int{
		"no-such-command-here": CodeNotFound, filepath.Join(dir, "none"): CodeNotFound,
		plain: CodeNotExecutable, "plain": CodeNotExecutable, dir: CodeNotExecutable, "": CodeNotFound,
	} {
		_, err := LookPath(command)
		if e, ok := errors.AsType[*StartError](err); !ok || e.Code != want {
			t.Errorf("%q: %v; want code %d", command, err, want)
		}
	}
}

func TestAFileThatCannotBeRunIsSaidSo(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("\x00\x01 no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(Spec{Path: garbage, Argv: []string{"garbage"}, Env: os.Environ()})
	if e, ok := errors.AsType[*StartError](err); !ok || e.Code != CodeNotExecutable {
		t.Errorf("%v; want code %d", err, CodeNotExecutable)
	}
}
