package etcdtests

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// heap is what is in use, after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTenThousandLeasesShareOneRound: no goroutine, a few hundred bytes, and
// three requests for all of them.
func TestTenThousandLeasesShareOneRound(t *testing.T) {
	const leases = 10_000
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.partyOf(unhurried)
	p.acquire(ask("first", lasting))
	grants := make([]authority.Grant, leases)
	bytes, goroutines := heap(), runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := i; j < leases; j += 50 {
				g, err := p.auth.Acquire(t.Context(), line(fmt.Sprintf("job%d", j), lasting))
				if err != nil {
					t.Error(err)
					return
				}
				grants[j] = g
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	w.eventually("no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	each := (heap() - bytes) / leases
	t.Logf("%d bytes a lease", each)
	if each > 700 {
		t.Errorf("%d bytes a lease", each)
	}
	before := w.counts()
	for i, r := range p.auth.RenewAll(w.long(), grants) {
		if r.Err != nil || r.Grant.Grant != grants[i].Grant || r.Grant.From <= grants[i].From {
			t.Fatalf("%+v was renewed as %+v, %v", grants[i], r.Grant, r.Err)
		}
	}
	total := int64(0)
	for method, n := range w.counts() {
		total += n - before[method]
	}
	if total > 10 {
		t.Errorf("%d requests for one renewal of all", total)
	}
}

// TestCloseReleasesNoLease: what is held runs out by itself, since work may go on
// in a process that has closed its client; all else goes at once.
func TestCloseReleasesNoLease(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p, other := w.party(), w.party()
	kept := p.acquire(ask("kept", lasting))
	given := p.acquire(ask("given", 20*time.Second))
	w.must(p.auth.Release(w.long(), given))
	ahead := other.acquire(ask("job", lasting))
	if _, err := p.auth.Acquire(w.long(), line("job", time.Minute)); !errors.Is(err, authority.ErrHeld) {
		t.Fatalf("the waiter: %v", err)
	}
	w.must(p.auth.Close())
	if s, err := other.auth.Inspect(w.long(), "kept"); err != nil || !s.Held || s.Grant != kept.Grant {
		t.Errorf("after Close: %+v, %v", s, err)
	}
	if line := w.places("job"); len(line) != 1 || line[0].created != int64(ahead.Token) {
		t.Errorf("the waiter of a closed client is still in line: %+v", line)
	}
	leases, err := w.raw.Leases(w.long())
	w.must(err)
	if len(leases.Leases) != 2 { // of kept, and of the other's
		t.Errorf("%d leases are left at etcd, two are in use", len(leases.Leases))
	}
}

// TestOneLeaseAtEtcdPerLength: however many locks.
func TestOneLeaseAtEtcdPerLength(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	for i := range 30 {
		p.acquire(ask(fmt.Sprintf("job%d", i), time.Duration(1+i%3)*time.Minute))
	}
	leases, err := w.raw.Leases(w.long())
	w.must(err)
	if len(leases.Leases) != 3 {
		t.Errorf("%d leases for three lengths", len(leases.Leases))
	}
}
