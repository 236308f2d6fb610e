package idempotenttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/halt"
	"github.com/stint-dev/stint/fence/idempotent"
	"github.com/stint-dev/stint/fence/idempotent/storetest"
)

func bank(folder string) storetest.Bank { return storetest.Bank(filepath.Join(folder, "bank")) }

// payments is how often the remote side was asked, with the one key.
func payments(t *testing.T, folder string) int {
	t.Helper()
	asked, err := bank(folder).Asked()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range asked {
		if k != key {
			t.Errorf("the remote side got the key %q", k)
		}
	}
	return len(asked)
}

// stopper is a store that kills or stops its own process at the nth moment. All
// of them lie outside of a transaction: SQLite has one writer at a time, and
// nobody ends it for being stopped.
type stopper struct {
	idempotent.Store
	left    atomic.Int64
	signal  syscall.Signal
	stopped atomic.Bool // and continued past its lease
}

func (s *stopper) moment() {
	if s.left.Add(-1) != 0 {
		return
	}
	if err := halt.Self(s.signal); err != nil {
		panic(err)
	}
	s.stopped.Store(true)
}

func (s *stopper) timeLeft() time.Duration {
	if s.stopped.Load() {
		return 0
	}
	return time.Hour
}

func (s *stopper) Get(ctx context.Context, key string) (idempotent.Record, error) {
	s.moment()
	defer s.moment()
	return s.Store.Get(ctx, key)
}

func (s *stopper) Set(ctx context.Context, c fence.Claim, key string, was, now idempotent.Record) error {
	s.moment()
	defer s.moment()
	return s.Store.Set(ctx, c, key, was, now)
}

func child(folder string) {
	n, err := strconv.Atoi(os.Getenv(momentEnv))
	sig, failed := strconv.Atoi(os.Getenv(signalEnv))
	at, notOpen := open(folder)
	if err = errors.Join(err, failed, notOpen); err == nil {
		s := &stopper{Store: at.s, signal: syscall.Signal(sig)}
		s.left.Store(int64(n))
		ctx := fence.WithTimeLeft(context.Background(), s.timeLeft)
		var claim fence.Claim
		if claim, err = at.f.Raise(ctx, "payments", fence.Grant{Token: 7, Nonce: "a"}); err == nil {
			_, err = idempotent.Do(ctx, s, claim, effect(folder, os.Getenv(keysEnv) == "true", s.moment))
		}
		if s.stopped.Load() {
			err = nil // the records and the remote side tell
		}
		fmt.Println(n - int(s.left.Load()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func effect(folder string, keys bool, around func()) idempotent.Effect {
	return idempotent.Effect{Key: key, Timeout: time.Minute, TakesKeys: keys, Call: func(_ context.Context, key string) (string, error) {
		around()
		defer around()
		return "receipt", bank(folder).Pay(key)
	}}
}

// TestAProcessKilledAtAnyStepNeverPaysTwice kills a real process before and after
// each of its requests; then its successor comes.
func TestAProcessKilledAtAnyStepNeverPaysTwice(t *testing.T) {
	everyMoment(t, syscall.SIGKILL)
}

// TestAProcessStoppedAtAnyStepNeverPaysTwice stops it there, and continues it when
// its lease is over and its successor has come.
func TestAProcessStoppedAtAnyStepNeverPaysTwice(t *testing.T) {
	everyMoment(t, syscall.SIGSTOP)
}

func everyMoment(t *testing.T, sig syscall.Signal) {
	for _, keys := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys %v", keys), func(t *testing.T) {
			unknown, twice, last := 0, 0, countMoments(t, keys)
			for n := 1; n <= last; n++ {
				folder := t.TempDir()
				opened(t, folder)
				goOn := start(t, folder, n, sig, keys)
				out := succeed(t, n, folder, keys)
				goOn()
				paid := payments(t, folder)
				if paid > 1 && !keys || paid > 2 {
					t.Errorf("moment %d: the remote side was asked %d times", n, paid)
				}
				if r, err := opened(t, folder).s.Get(t.Context(), key); err != nil || r.State != out.State {
					t.Errorf("moment %d: the record is %v, %v; the second was told %v", n, r, err, out)
				}
				if paid == 2 {
					twice++
				}
				if out.State == idempotent.Unknown {
					unknown++
				}
			}
			if last < 8 || (unknown > 0) == keys || (twice > 0) != keys {
				t.Errorf("%d moments, %d left to a person, %d asked twice: none was between the two records", last, unknown, twice)
			}
		})
	}
}

// succeed is the next holder.
func succeed(t *testing.T, n int, folder string, keys bool) idempotent.Outcome {
	t.Helper()
	s := opened(t, folder)
	claim, err := s.f.Raise(t.Context(), "payments", fence.Grant{Token: 12, Nonce: "b"})
	if err != nil {
		t.Fatal(err)
	}
	before := payments(t, folder)
	out, err := idempotent.Do(t.Context(), s.s, claim, effect(folder, keys, func() {}))
	switch paid := payments(t, folder); {
	case paid > 0 && out.State == idempotent.Done && err == nil:
	case !keys && paid == before && out.State == idempotent.Unknown && errors.Is(err, fence.ErrUnknown):
		if all, err := s.s.List(t.Context()); err != nil || len(all) != 1 || all[0].Key != key || all[0].State != idempotent.Unknown {
			t.Errorf("moment %d: a person is shown %v, %v", n, all, err)
		}
	default:
		t.Errorf("moment %d: paid %d times, then %d; %v, %v", n, before, paid, out, err)
	}
	return out
}

// countMoments is how many moments the first holder has when nothing happens to it.
func countMoments(t *testing.T, keys bool) int {
	t.Helper()
	folder := t.TempDir()
	opened(t, folder)
	text, err := command(folder, 0, 0, keys).Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func command(folder string, n int, sig syscall.Signal, keys bool) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), folderEnv+"="+folder, momentEnv+"="+strconv.Itoa(n), signalEnv+"="+strconv.Itoa(int(sig)), fmt.Sprintf("%s=%v", keysEnv, keys))
	cmd.Stderr = os.Stderr
	return cmd
}

// start runs the first holder up to its moment. goOn continues one that is
// stopped, and waits for its end.
func start(t *testing.T, folder string, n int, sig syscall.Signal, keys bool) (goOn func()) {
	t.Helper()
	cmd := command(folder, n, sig, keys)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if sig == syscall.SIGKILL {
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("moment %d: %v", n, err)
		}
		return func() {}
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	if err := halt.Stopped(cmd.Process.Pid); err != nil {
		t.Fatalf("moment %d: %v", n, err)
	}
	return func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGCONT), cmd.Wait()); err != nil {
			t.Errorf("moment %d: the stopped process, continued: %v", n, err)
		}
	}
}
