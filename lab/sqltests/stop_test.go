package sqltests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/halt"
)

// way is how a worker writes.
type way struct {
	target
	copy bool
}

func (w way) String() string {
	if w.copy {
		return w.database + " COPY"
	}
	return w.target.String()
}

// What workers are killed and stopped with: the ways that differ in what they
// send, and with -long all levels that differ in what they lock.
var (
	short = []way{{postgres[0], true}, {mariadb[1], false}, {postgres[2], false}}
	full  = append([]way{{postgres[0], false}, {mariadb[0], false}, {mariadb[2], false}}, short...)
)

// lockTime is how long a successor waits for a lock in these tests before it
// ends the session that has it.
const lockTime = 300 * time.Millisecond

func TestAWorkerKilledAtAnyStepLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	eachStep(t, syscall.SIGKILL)
}

// A worker that is stopped, in the middle of a message too, holds its
// transaction and its locks until somebody ends its session.
func TestAWorkerStoppedAtAnyStepHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	eachStep(t, syscall.SIGSTOP)
}

// eachStep runs a worker process that gets sig before, in and after each of its
// writes, and its successor. Without -long every other write has one of the
// three.
func eachStep(t *testing.T, sig syscall.Signal) {
	ways := full
	if !*long {
		ways = short
	}
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			all := w.at(t)
			all.Settle, all.Lock = 2*time.Second, lockTime
			n := w.writes(t, all)
			if n < 15 {
				t.Fatalf("a worker makes only %d writes: it does more", n)
			}
			free := make(chan struct{}, 3)
			var waits waits
			var wg sync.WaitGroup
			begin := rand.Int64N(2 * whens)
			for at := int64(1); at <= n; at++ {
				for when := range whens {
					if k := at + begin; !*long && (k%2 != 0 || k/2%whens != int64(when)) {
						continue
					}
					free <- struct{}{}
					wg.Go(func() {
						defer func() { <-free }()
						o := order{Place: all.beside(), Copy: w.copy, Steps: steps{at, when, sig}}
						err := o.play(t, &waits)
						if errors.Is(err, errLate) { // once by chance, perhaps: what holds a raise up does so each time
							t.Log(err)
							o.Place = all.beside()
							err = o.play(t, &waits)
						}
						if err != nil {
							t.Errorf("%v at write %d of %d, %s: %v", sig, at, n, [...]string{"before it", "in it", "after it"}[when], err)
						}
					})
				}
			}
			wg.Wait()
			t.Log(&waits)
		})
	}
}

// writes is how many writes a worker makes when nothing happens to it.
func (w way) writes(t *testing.T, all place) int64 {
	p := all.beside()
	p.fresh(t, nil)
	s := &stepper{}
	worker, err := order{Place: p, Copy: w.copy}.workerOn(background(t), s)
	must(t, err)
	defer worker.close()
	must(t, worker.finishWork(background(t), grant(7, "a")))
	return s.n.Load()
}

// play has a worker stop itself, its successor take over, and the worker go on.
func (o order) play(t *testing.T, waits *waits) error {
	s, err := o.Place.open(nil)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.create(ctx); err != nil {
		return err
	}
	cmd := o.command(t)
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	ended := false
	end := func() error { ended = true; return cmd.Wait() }
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	if o.Steps.Signal == syscall.SIGKILL {
		_ = end() // it is dead
	} else if err := halt.Stopped(pid); err != nil {
		return err
	}
	if err := o.succeed(ctx, s, waits); err != nil {
		return err
	}
	if !ended {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			return err
		}
		if err := end(); err != nil {
			return fmt.Errorf("the stopped worker, continued: %w", err)
		}
	}
	return s.billedOnce(ctx, o.Copy)
}

var errLate = errors.New("the successor's raise was late")

// succeed is the successor's whole job. Its raise comes through within the lock
// time and a second, whatever the one before it is doing; and what the machine
// takes for raises that nobody holds up, at the same moment.
func (o order) succeed(ctx context.Context, s *store, waits *waits) error {
	o.Steps = steps{}
	w, err := o.worker(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	pace := s.pace(ctx)
	begun := time.Now()
	err = w.raises(ctx, grant(12, "b"))
	took := time.Since(begun)
	slowest, paceErr := pace()
	if err != nil {
		return fmt.Errorf("the successor's raise: %w", err)
	}
	if paceErr != nil {
		return fmt.Errorf("a raise beside it: %w", paceErr)
	}
	waits.add(took, slowest)
	if took > o.Place.Lock+time.Second+dearer*slowest {
		return fmt.Errorf("%w: it took %v, and one that nobody holds up %v at most", errLate, took, slowest)
	}
	return w.finishWork(ctx, grant(12, "b"))
}

// billedOnce looks at what both left.
func (s *store) billedOnce(ctx context.Context, copied bool) error {
	want := 1
	if copied {
		want = perChunk
	}
	for i := range chunks {
		var n, distinct int
		if err := s.db.QueryRowContext(ctx, s.q("SELECT count(*), count(DISTINCT v) FROM {d} WHERE k = ?"), chunk(i)).Scan(&n, &distinct); err != nil {
			return err
		}
		if n != want || distinct != want {
			return fmt.Errorf("%s has %d invoices, %d different ones; want %d", chunk(i), n, distinct, want)
		}
	}
	r, err := s.f.Row(ctx, job)
	if err != nil || r.Fence != 12 || r.State != fence.Done || r.Seq != chunks {
		return fmt.Errorf("the row is %+v, %v", r, err)
	}
	return nil
}
