package sqlitelease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// TestTenThousandLeasesInOneFile fills a file at one stroke, then takes and keeps
// some hundred more the usual way.
func TestTenThousandLeasesInOneFile(t *testing.T) {
	const leases, more = 10_000, 256
	a := openAt(t, newPath(t), Options{})
	first := mustAcquire(t, a, ask("job/00001", "n", time.Hour))
	if err := a.writer.conn.Exec(`BEGIN IMMEDIATE;
		WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
		INSERT INTO leases SELECT printf('job/%05d', i), i, 'n', holder, since, length, deadline, 0 FROM n, leases;
		UPDATE authority SET counter = 10000; COMMIT`); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{1, 5_000, leases} {
		g := authority.Grant{Grant: fence.Grant{Token: fence.Token(i), Nonce: "n"}, Name: fmt.Sprintf("job/%05d", i), Length: first.Length}
		if _, err := a.Renew(t.Context(), g); err != nil {
			t.Error(err)
		}
	}
	parallel(t, more, func(i int) error {
		g, err := a.Acquire(context.Background(), ask("more/"+strconv.Itoa(i), "n", time.Hour))
		if err == nil {
			_, err = a.Renew(context.Background(), g)
		}
		return err
	})
	n, last := 0, ""
	for s, err := range a.List(t.Context()) {
		if err != nil || !s.Held || s.Name <= last {
			t.Fatalf("%+v after %q, %v", s, last, err)
		}
		n, last = n+1, s.Name
	}
	if n != leases+more {
		t.Errorf("%d of %d listed", n, leases+more)
	}
}

// parallel calls f for 0 to n-1 from 64 goroutines.
func parallel(t *testing.T, n int, f func(int) error) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func TestIdleNamesAreForgottenAndTokensGrowAllTheSame(t *testing.T) {
	c := newFakeClock()
	a := openAt(t, newPath(t), Options{Clock: c})
	kept := mustAcquire(t, a, ask("kept", "n", 100*time.Hour))
	var last authority.Grant
	for i := range 30 {
		last = mustAcquire(t, a, ask(fmt.Sprintf("idle/%d", i), "n", time.Second))
		if err := a.Release(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(idleFor + time.Second)
	eventually(t, "only names in use", func() bool {
		last = mustAcquire(t, a, ask("busy", fmt.Sprintf("n%d", last.Token), time.Second))
		if err := a.Release(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range a.List(t.Context()) {
			n++
		}
		return n == 2 // kept and busy
	})
	s, err := a.Inspect(t.Context(), "idle/1")
	if err != nil || s.Held || !s.Grant.IsZero() {
		t.Errorf("a forgotten name: %+v, %v", s, err)
	}
	if g := mustAcquire(t, a, ask("idle/1", "again", time.Second)); g.Token <= last.Token {
		t.Errorf("token %d after %d", g.Token, last.Token)
	}
	if _, err := a.Renew(t.Context(), kept); err != nil {
		t.Error(err)
	}
}

// TestWaitingCostsNextToNothing lets ten wait for three seconds, in one process,
// and counts processor time: 1 % of it for each.
func TestWaitingCostsNextToNothing(t *testing.T) {
	a := openAt(t, newPath(t), Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	tries := make([]int, 10)
	before := cpu(t)
	for i := range tries {
		wg.Go(func() {
			for ctx.Err() == nil {
				tries[i]++
				r := ask("x", fmt.Sprintf("w%d-%d", i, tries[i]), time.Minute)
				r.Waiter = fmt.Sprintf("w%d", i)
				if _, err := a.Acquire(ctx, r); !errors.Is(err, authority.ErrHeld) && ctx.Err() == nil {
					t.Error(err)
				}
				if err := a.Wait(ctx, r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	spent := cpu(t) - before
	t.Logf("%v of processor time for 10 waiters over 3 s; tries %v", spent, tries)
	if spent > 3*time.Second*10/100 {
		t.Errorf("%v of processor time for waiting 3 s", spent)
	}
	for i, n := range tries {
		if n > 5 {
			t.Errorf("waiter %d was woken %d times for nothing", i, n)
		}
	}
	if err := a.Release(t.Context(), g); err != nil {
		t.Error(err)
	}
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	runtime.GC()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkAcquireRelease(b *testing.B) {
	a := openAt(b, newPath(b), Options{})
	for i := 0; b.Loop(); i++ {
		g := mustAcquire(b, a, ask("x", "n"+strconv.Itoa(i), time.Minute))
		if err := a.Release(b.Context(), g); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	a := openAt(b, newPath(b), Options{})
	g := mustAcquire(b, a, ask("x", "n", time.Minute))
	for b.Loop() {
		if _, err := a.Renew(b.Context(), g); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenewMany is what a client with many leases does: requests that are
// in flight together share a transaction.
func BenchmarkRenewMany(b *testing.B) {
	a := openAt(b, newPath(b), Options{})
	var grants [256]authority.Grant
	for i := range grants {
		grants[i] = mustAcquire(b, a, ask("x"+strconv.Itoa(i), "n", time.Hour))
	}
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := a.Renew(context.Background(), grants[i%len(grants)]); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkRefused(b *testing.B) {
	a := openAt(b, newPath(b), Options{})
	mustAcquire(b, a, ask("x", "n", time.Hour))
	for b.Loop() {
		if _, err := a.Acquire(b.Context(), ask("x", "m", time.Minute)); err == nil {
			b.Fatal("granted")
		}
	}
}
