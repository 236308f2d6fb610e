package sqlfencetest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/fencetest/halt"
	"github.com/stint-dev/stint/fence/sqlfence"
)

const chunks = 2

func chunk(i int) string { return fmt.Sprint("chunk", i) }

// writeChunks is the other process: a worker with token 7 that raises, reads how
// far the work came, writes the rest chunk by chunk, and finishes. arg says
// where it is killed or stopped by its own hand.
func writeChunks(dsn, arg string) error {
	var at int64
	var when, sig int
	if _, err := fmt.Sscan(arg, &at, &when, &sig); err != nil {
		return err
	}
	s, err := openStore(dsn, func(r faultsql.Request, w faultsql.When) error {
		if r.N == at && int(w) == when {
			return halt.Self(syscall.Signal(sig))
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer s.db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = s.finishWork(ctx, grant(7, "a"))
	if errors.Is(err, fence.ErrStale) {
		return nil
	}
	return err
}

// finishWork is what every worker does.
func (s *store) finishWork(ctx context.Context, g fence.Grant) error {
	c, err := s.f.Raise(ctx, job, g)
	if err != nil {
		return err
	}
	var have int
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM data").Scan(&have); err != nil {
		return err
	}
	for i := have; i < chunks; {
		switch err := s.write(ctx, c, chunk(i), "v", nil); {
		case err == nil:
			i++
		case !errors.Is(err, sqlfence.ErrBusy): // a reader that holds up COMMIT
			return err
		}
	}
	return s.f.Finish(ctx, c)
}

// steps is how many requests a worker makes when nothing happens to it.
func steps(t *testing.T) int {
	n := &faultsql.Network{}
	dsn := modes[1].dsn(t)
	fresh(t, dsn, nil)
	s := reopen(t, dsn, n.Hook)
	must(t, s.finishWork(t.Context(), grant(7, "a")))
	return n.Seen()
}

func TestAWorkerKilledAtAnyStepLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	eachStep(t, syscall.SIGKILL, func(t *testing.T, dsn string, s *store, pid int, wait func() error) {
		_ = wait() // it is dead
		must(t, s.finishWork(t.Context(), grant(12, "b")))
	})
}

func TestAWorkerStoppedAtAnyStepLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	held := 0
	eachStep(t, syscall.SIGSTOP, func(t *testing.T, dsn string, s *store, pid int, wait func() error) {
		must(t, halt.Stopped(pid))
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		_, err := s.f.Raise(ctx, job, grant(12, "b"))
		cancel()
		switch {
		case errors.Is(err, sqlfence.ErrBusy): // the known exception: see below
			held++
		case errors.Is(err, context.DeadlineExceeded): // only slow
		case err != nil:
			t.Fatal(err)
		default:
			must(t, s.finishWork(t.Context(), grant(12, "b")))
		}
		must(t, syscall.Kill(pid, syscall.SIGCONT))
		must(t, s.finishWork(t.Context(), grant(12, "b")))
		must(t, wait())
	})
	if held == 0 {
		t.Error("the worker was never stopped inside a transaction")
	}
}

// eachStep runs a worker process that gets sig before, and in another run
// after, each of its requests, and counts what was written in the end.
func eachStep(t *testing.T, sig syscall.Signal, then func(t *testing.T, dsn string, s *store, pid int, wait func() error)) {
	n := steps(t)
	if n < 12 {
		t.Fatalf("a worker makes only %d requests: it does more", n)
	}
	for at := 1; at <= n; at++ {
		for _, when := range faultsql.BothSides {
			t.Run(fmt.Sprintf("%v request %d", when, at), func(t *testing.T) {
				dsn := modes[at%len(modes)].dsn(t)
				s := fresh(t, dsn, nil)
				cmd := command("write", dsn, fmt.Sprint(at, int(when), int(sig)))
				must(t, cmd.Start())
				waited := false
				wait := func() error { waited = true; return cmd.Wait() }
				defer func() {
					if !waited {
						_ = cmd.Process.Kill()
						_ = cmd.Wait()
					}
				}()
				then(t, dsn, s, cmd.Process.Pid, wait)
				for i := range chunks {
					if n := s.count(t, chunk(i)); n != 1 {
						t.Errorf("%s was written %d times", chunk(i), n)
					}
				}
				if r, err := s.f.Row(t.Context(), job); err != nil || r.Fence != 12 || r.State != fence.Done || r.Seq != chunks {
					t.Errorf("the row is %+v, %v", r, err)
				}
			})
		}
	}
}

// busy is the error of a call that waits for a lock until its context ends. One that
// came too late to wait says nothing of a lock, and is made again.
func busy(t *testing.T, call func(context.Context) error) error {
	t.Helper()
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := call(ctx)
		cancel()
		wants(t, err, context.DeadlineExceeded)
		if errors.Is(err, sqlfence.ErrBusy) || time.Since(begun) > 30*time.Second {
			wants(t, err, sqlfence.ErrBusy)
			return err
		}
	}
}

// The one known exception: SQLite has one write lock for the whole file, and a
// process that is stopped while it holds it holds up everybody.
func TestAProcessStoppedInsideItsTransactionHoldsUpTheOthersWhoAreToldWhy(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dsn := m.dsn(t)
			s := fresh(t, dsn, nil)
			// connect, begin, lock, stop
			cmd := command("write", dsn, fmt.Sprint(3, int(faultsql.After), int(syscall.SIGSTOP)))
			must(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			must(t, halt.Stopped(cmd.Process.Pid))
			// Another name, another job: the lock is the file's.
			err := busy(t, func(ctx context.Context) error {
				_, err := s.f.Raise(ctx, "another job", grant(12, "b"))
				return err
			})
			for _, word := range []string{"nothing was written", "SIGSTOP", "killed"} {
				if !contains(err, word) {
					t.Errorf("the error does not say %q: %v", word, err)
				}
			}
			// Killed, its transaction is undone by the next one to come.
			must(t, cmd.Process.Kill())
			c := raise(t, s, job, grant(12, "b"))
			if c.Previous.Fence != 0 {
				t.Errorf("the killed transaction left %+v", c.Previous)
			}
		})
	}
}
