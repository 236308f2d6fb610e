package etcdtests

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
)

// TestAnotherHolderInItsPlaceEndsALeaseOnce: somebody writes another holder into
// etcd behind the client's back.
func TestAnotherHolderInItsPlaceEndsALeaseOnce(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	l := w.lease(a.stint(calm), "job")
	w.breakGlass("job")
	g := b.acquire(ask("job", lasting))
	select {
	case <-l.Context().Done():
	case <-w.long().Done():
		t.Fatal("the lease goes on beside another holder")
	}
	var lost *stint.LostError
	if !errors.As(l.Err(), &lost) || lost.Reason != stint.ErrTakenOver {
		t.Errorf("got %v", l.Err())
	}
	if lost != nil && lost.By != 0 && lost.By != g.Token {
		t.Errorf("it says that %d took over, not %d", lost.By, g.Token)
	}
	if err := l.Release(w.long()); err != nil && !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("releasing what is over: %v", err)
	}
	if _, err := b.auth.Renew(w.long(), g); err != nil {
		t.Errorf("the new holder was disturbed: %v", err)
	}
}

// TestNothingIsRenewedOnAClosedClient: whoever asks learns it at once.
func TestNothingIsRenewedOnAClosedClient(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p, other := w.party(), w.party()
	g := p.acquire(ask("job", 20*time.Second))
	w.must(p.auth.Close())
	if _, err := p.auth.Renew(w.long(), g); !errors.Is(err, authority.ErrClosed) {
		t.Errorf("Renew after Close: %v", err)
	}
	if _, err := p.auth.Acquire(w.long(), ask("other", 20*time.Second)); !errors.Is(err, authority.ErrClosed) {
		t.Errorf("Acquire after Close: %v", err)
	}

	// Its user closes etcd's client under a lease.
	late := w.stopwatch()
	const length = 5 * time.Second
	l := w.lease(other.stint(stint.Options{TTL: length}), "job2")
	other.etcd.Close()
	other.cut()                 // the authority's own connections, too
	latest := now().Add(length) // of the stop time that any renewal before may have brought
	<-l.Context().Done()
	if over := now().Sub(latest); over > 3*late() || l.Err() == nil {
		t.Errorf("the lease went on for %v after it must have stopped (timers were late by up to %v): %v", over, late(), l.Err())
	}
}

// TestRenewingForEverGrowsNothing: neither goroutines nor memory.
func TestRenewingForEverGrowsNothing(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	grants := make([]authority.Grant, 200) // they share rounds
	for i := range grants {
		grants[i] = p.acquire(ask(fmt.Sprint("job", i), lasting))
	}
	ctx := w.within(2 * time.Minute)
	renew := func(n int) {
		var wg sync.WaitGroup
		for i := range grants {
			wg.Go(func() {
				for range n / len(grants) {
					var err error
					if grants[i], err = p.auth.Renew(ctx, grants[i]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	measure := func() (int, uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	renew(10_000)
	goroutines, heap := measure()
	renew(100_000)
	// Some of it is still on its way to its end.
	w.eventually("goroutines and heap are as before 100,000 renewals", func() bool {
		after, heapAfter := measure()
		ok := after <= goroutines+5 && heapAfter <= heap+1<<20
		if !ok {
			t.Logf("%d goroutines, %d bytes; before %d and %d", after, heapAfter, goroutines, heap)
		}
		return ok
	})
}

// TestARepeatedReleaseSparesWhatTheSameClientTookSince: the first was carried
// out, its answer was lost, the name was taken again by the same session.
func TestARepeatedReleaseSparesWhatTheSameClientTookSince(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	first := p.acquire(ask("job", lasting))
	p.layer.Arm(grpcfault.Fault{Method: txn, Only: deletes("/lock/job/"), Kind: grpcfault.LoseAnswer, Broken: true})
	_ = p.auth.Release(w.long(), first) // whatever it was told
	if p.layer.Struck() != 1 {
		t.Fatal("no answer was lost")
	}
	second := p.acquire(ask("job", lasting))
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	if err := p.auth.Release(w.long(), first); err != nil && !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("the release repeated: %v", err)
	}
	if s, err := p.auth.Inspect(w.long(), "job"); err != nil || s.Grant != second.Grant {
		t.Errorf("after it: %+v, %v; want %v held", s, err, second.Grant)
	}
	if _, err := p.auth.Renew(w.long(), second); err != nil {
		t.Error(err)
	}
}

// TestAReleaseThatIsCutOffDoesNotLockItsOwnClientOut: neither requests nor
// answers get through for a while. It takes requests that are asked again, and not
// the time after which its old lease would have run out by itself.
func TestAReleaseThatIsCutOffDoesNotLockItsOwnClientOut(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	const length = 25 * time.Second
	c := p.stint(stint.Options{TTL: length})
	first := w.lease(c, "job")
	p.layer.Arm(grpcfault.Fault{Method: txn, Only: deletes("/lock/job/"), Kind: grpcfault.LoseAnswer}, grpcfault.Fault{Method: txn, N: 2, Kind: grpcfault.LoseRequest})
	_ = first.Release(w.within(300 * time.Millisecond)) // it goes on in the background
	begin := now()
	again := w.lease(c, "job")
	if took := now().Sub(begin); took > length*2/3 {
		t.Errorf("the client waited %v for itself, with leases of %v", took, length)
	}
	if again.Token() <= first.Token() {
		t.Errorf("token %d after %d", again.Token(), first.Token())
	}
	w.must(again.Release(w.long()))
	w.noKeys("job")
}

// TestAcquireReturnsInTimeWhenNoServerAnswers: the servers are frozen, so
// connections stay open and nothing comes.
func TestAcquireReturnsInTimeWhenNoServerAnswers(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	c := p.stint(calm)
	warm := w.lease(c, "warm")
	w.must(warm.Release(w.long()))
	late := w.stopwatch()
	w.must(w.cluster.Stop(0))
	for what, acquire := range map[string]func() error{
		"authority": func() error { _, err := p.auth.Acquire(w.within(time.Second), line("job", calm.TTL)); return err },
		"client":    func() error { _, err := c.Acquire(w.within(time.Second), "job"); return err },
	} {
		begin := now()
		if err := acquire(); err == nil || errors.Is(err, authority.ErrHeld) {
			t.Errorf("%s: got %v", what, err)
		}
		if took := now().Sub(begin); took > 2*time.Second+3*late() {
			t.Errorf("%s: a context of one second ended it after %v (timers were late by up to %v)", what, took, late())
		}
	}
	w.must(w.cluster.Cont(0))
	w.noKeys("job")
}

// TestLengthsThatEtcdCannotKeepAreRefused: it would take nanoseconds for seconds,
// negative lengths, and more than it can count.
func TestLengthsThatEtcdCannotKeepAreRefused(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	for _, length := range []time.Duration{
		-1, 0, 1, time.Millisecond, 1500 * time.Millisecond, 100 * 366 * 24 * time.Hour, math.MaxInt64, math.MinInt64,
	} {
		_, err := p.auth.Acquire(w.long(), ask("job", length))
		var l *authority.LengthError
		if !errors.As(err, &l) || !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("%v: got %v", length, err)
			continue
		}
		if g := p.acquire(ask("nearest to "+length.String(), l.Nearest)); g.Length != l.Nearest {
			t.Errorf("%v: asked for the nearest, %v, got %v", length, l.Nearest, g.Length)
		}
	}
	if g := p.acquire(ask("day", 24*time.Hour)); g.Length != 24*time.Hour {
		t.Errorf("asked for a day, got %v", g.Length)
	}
}

// TestALengthBelowTheServersMinimumIsRefused with the nearest that it keeps: it
// would grant a longer lease without a word, and a crash would hold it longer.
func TestALengthBelowTheServersMinimumIsRefused(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{Heartbeat: 200 * time.Millisecond, Election: 2 * time.Second})
	p := w.party()
	_, err := p.auth.Acquire(w.long(), ask("job", time.Second))
	var l *authority.LengthError
	if !errors.As(err, &l) || l.Nearest != 3*time.Second {
		t.Errorf("got %v", err)
	}
	p.acquire(ask("job", 3*time.Second))
}
