package billing

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence/sqlfence"
)

// schedulingAllowance is what a busy machine may add to any delay. It only has
// to be far below "never".
const schedulingAllowance = 5 * time.Second

// Whatever step a worker is killed at, and whatever step it is stopped at past
// its lease, a second worker finishes the job: every invoice is charged exactly
// once, and the job is free again within one lease and the authority's stated
// lateness.
func TestKilledOrStoppedAtAnyStepBillsOnce(t *testing.T) {
	for _, s := range Steps {
		t.Run("kill/"+string(s), func(t *testing.T) {
			t.Parallel()
			killAt(t, s)
		})
		if s.InTransaction() {
			continue // see TestFrozenInsideStoresTransaction
		}
		t.Run("stop/"+string(s), func(t *testing.T) {
			t.Parallel()
			stopAt(t, s)
		})
	}
}

// caught starts a worker and waits until it is held at s.
func caught(t *testing.T, s Step) (*rig, *actor) {
	t.Helper()
	return caughtWith(t, s, time.Second)
}

func caughtWith(t *testing.T, s Step, ttl time.Duration) (*rig, *actor) {
	t.Helper()
	r := newRig(t, ttl)
	hold := Hold{Step: s}
	switch s {
	case Built, Checked, Admitted, HalfSent, BeforeCommit, AfterCommit:
		hold.Chunk = 2
	}
	a := r.start("A", r.ttl/5, hold)
	a.await("hold at "+string(s), held)
	return r, a
}

func killAt(t *testing.T, s Step) {
	r, a := caught(t, s)
	kill(t, a)
	b := r.start("B", 0, Hold{})
	if e := b.ended(); e.Err != "" {
		t.Errorf("B did not see the job done: %s", e.Err)
	}
	r.verdict()
	freeInTime(r, s, a, b)
}

func stopAt(t *testing.T, s Step) {
	r, a := caught(t, s)
	freeze(t, a)
	b := r.start("B", 0, Hold{})
	if e := b.ended(); e.Err != "" {
		t.Errorf("B did not see the job done: %s", e.Err)
	}
	r.verdict()
	freeInTime(r, s, a, b)
	thaw(t, a)
	a.ended()
	r.verdict()
	zombieWroteNothing(r, a)
}

// freeInTime compares when B was granted the job with what A had last been
// granted: not before A's lease was over, and not much later.
func freeInTime(r *rig, s Step, a, b *actor) {
	r.t.Helper()
	from, to := lastGranted(a.all())
	granted := b.await("lease", step(AfterAcquire)).At
	asked := b.await("request", step(BeforeAcquire)).At
	if s == BeforeAcquire || s == AfterRelease {
		return // A did not hold it
	}
	if over := from.Add(r.ttl); granted < over {
		r.t.Errorf("B was granted the job %v before A's lease was over", over.Sub(granted))
	}
	if late := granted.Sub(max(asked, to.Add(r.ttl))); late > r.lateness()+schedulingAllowance {
		r.t.Errorf("B was granted the job %v after A's lease was over; the authority states at most %v", late, r.lateness())
	}
}

// zombieWroteNothing demands that no charge came in with a token below the fence
// of its time: chunks are numbered in the order of their tokens.
func zombieWroteNothing(r *rig, a *actor) {
	r.t.Helper()
	db, err := OpenDB(StoreFile(r.dir), time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	var disorder int
	err = db.QueryRow(`SELECT count(*) FROM chunks x JOIN chunks y ON x.rowid < y.rowid AND (x.token > y.token OR x.chunk >= y.chunk)`).Scan(&disorder)
	if err != nil || disorder > 0 {
		r.t.Errorf("%d pairs of chunks were written out of the order of their tokens (%v)", disorder, err)
	}
	fences, err := Fences(db)
	if err != nil {
		r.t.Fatal(err)
	}
	for row, err := range fences.Claims(r.t.Context()) {
		r.t.Errorf("the job is over and still claimed: %+v (%v)", row, err)
	}
}

// A process that is frozen inside SQLite's own write transaction is the one
// known exception: it keeps the store from everybody until it goes on or is
// killed. The others get an error that names it, and then nothing was billed
// twice or lost.
func TestFrozenInsideStoresTransaction(t *testing.T) {
	for _, s := range []Step{Admitted, HalfSent, BeforeCommit} {
		for _, end := range []string{"continue", "kill"} {
			t.Run(fmt.Sprintf("%s/%s", end, s), func(t *testing.T) {
				t.Parallel()
				r, a := caught(t, s)
				freeze(t, a)
				b := r.start("B", 0, Hold{})
				e := b.await("error that names the frozen process", func(e Event) bool {
					return e.Step == Retry && strings.Contains(e.Err, sqlfence.ErrBusy.Error())
				})
				if !strings.Contains(e.Err, "SIGSTOP") || !strings.Contains(e.Err, "nothing was written") {
					t.Errorf("the error does not say what may hold the lock and what it means: %s", e.Err)
				}
				if end == "kill" {
					kill(t, a)
				} else {
					thaw(t, a)
					a.ended()
				}
				b.ended()
				r.verdict()
				zombieWroteNothing(r, a)
			})
		}
	}
}

func kill(t *testing.T, a *actor) {
	t.Helper()
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a.Wait()
}

// freeze stops a and makes sure that it is stopped.
func freeze(t *testing.T, a *actor) {
	t.Helper()
	if err := a.Freeze(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !stopped(t, a.Pid()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not stop", a.Who)
		}
	}
}

// thaw continues a, which then goes on with the request that it was held before.
func thaw(t *testing.T, a *actor) {
	t.Helper()
	if err := a.Go(); err != nil {
		t.Fatal(err)
	}
	if err := a.Thaw(); err != nil {
		t.Fatal(err)
	}
}

// stopped reads the state of a process where the system shows it; elsewhere it
// trusts the signal.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "T")
}

// A late write that lands before the next holder's raise is seen by that holder,
// because it reads only after it has raised: the chunk is not billed again.
func TestLateWriteBeforeTheRaiseIsReadAfterIt(t *testing.T) {
	t.Parallel()
	// A lost no lease before, and B's does not run out while it is held.
	r, a := caughtWith(t, Checked, 5*time.Second) // chunk 2 is in its buffer
	freeze(t, a)
	b := r.start("B", 0, Hold{Step: BeforeRaise})
	b.await("hold before its raise", held)
	thaw(t, a)
	a.await("late write", func(e Event) bool { return e.Step == AfterCommit && e.Chunk == 2 && e.Token == 1 && e.Err == "" })
	if err := b.Go(); err != nil {
		t.Fatal(err)
	}
	if e := b.await("read", step(AfterRead)); e.Chunk != 2 {
		t.Errorf("B reads that %d chunks are done, want 2", e.Chunk)
	}
	b.ended()
	a.ended()
	r.verdict()
	zombieWroteNothing(r, a)
}
