package sqlitelease

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// lock takes the file's write lock as another process would.
func lock(t *testing.T, path string) *conn {
	t.Helper()
	c, err := openConn(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	if err := c.begin(func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARenewalThatWaitedForTheLockPastItsDeadlineIsRefused(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	const length = 100 * time.Millisecond
	g := mustAcquire(t, a, ask("x", "n", length))
	c := lock(t, path)
	sent := make(chan error, 1)
	go func() {
		_, err := a.Renew(context.Background(), g)
		sent <- err
	}()
	eventually(t, "a renewal that waits for the lock", func() bool { return a.writer.blocked.Load() != 0 })
	s, err := a.Inspect(t.Context(), "x") // the lease was alive when the renewal was sent, unless the machine is slow
	t.Logf("the renewal waits; %v left, %v", s.Left, err)
	time.Sleep(6 * length) // lease time has to go by, whatever happens
	c.rollback()
	if err := <-sent; !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("renewed after its deadline: %v", err)
	}
}

func TestARequestThatGaveUpWaitingForTheLockIsNotDone(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	c := lock(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := a.Acquire(ctx, ask("x", "n", time.Minute))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("got %v", err)
	}
	c.rollback()
	mustAcquire(t, a, ask("y", "m", time.Minute)) // the writer goes on
	if s, err := a.Inspect(t.Context(), "x"); err != nil || s.Held {
		t.Errorf("what was given up was done all the same: %+v, %v", s, err)
	}
}

// TestAProcessStoppedInsideItsTransactionIsNamed shows the one known exception:
// it stalls every lease of the file.
func TestAProcessStoppedInsideItsTransactionIsNamed(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute))
	p := start(t, "transaction", path, "x", "w")
	p.says("inside")
	p.signal(syscall.SIGSTOP)
	for range 5 {
		eventually(t, "a renewal that names it", func() bool { // one that came too late to wait cannot
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := a.Renew(ctx, g)
			if !errors.Is(err, context.DeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), "nothing was done")) {
				t.Fatalf("got %v", err)
			}
			return strings.Contains(err.Error(), "stopped inside a transaction")
		})
	}
	if s, err := a.Inspect(t.Context(), "x"); err != nil || !s.Held {
		t.Errorf("looking is still possible, but: %+v, %v", s, err)
	}
	p.signal(syscall.SIGCONT)
	p.in.Close()
	p.says("outside")
	if _, err := a.Renew(t.Context(), g); err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

func TestAKilledWriterLeavesTheFileUsable(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	p := start(t, "transaction", path, "x", "w")
	p.says("inside")
	p.signal(syscall.SIGKILL)
	mustAcquire(t, a, ask("x", "n", time.Minute))
}

func TestCloseWaitsForNobodyStuck(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	mustAcquire(t, a, ask("x", "n", time.Minute))
	r := ask("x", "m", time.Minute)
	r.Waiter = "w"
	if _, err := a.Acquire(t.Context(), r); !errors.Is(err, authority.ErrHeld) {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- a.Wait(context.Background(), r) }()
	eventually(t, "a call to Wait", func() bool {
		a.queue.mu.Lock()
		defer a.queue.mu.Unlock()
		return a.queue.waiters[spot{"x", "w"}].waiting == 1
	})
	lock(t, path) // and never let go
	start := time.Now()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, authority.ErrClosed) {
		t.Errorf("Wait ended with %v", err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("Close took %v", d)
	}
}
