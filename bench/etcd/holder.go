//go:build !race

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint"
)

// holderOrder is what a holder is told.
type holderOrder struct {
	Side      string // "stint" or "library"
	Leases    int
	Endpoints []string
	Leader    string
	Profile   string // where the CPU profile goes, if anywhere
}

// holderMain holds many leases until its input ends, and reports when asked.
func holderMain(order []byte, in io.Reader, out io.Writer) error {
	var o holderOrder
	if err := json.Unmarshal(order, &o); err != nil {
		return err
	}
	take := takeOurs
	if o.Side == "library" {
		take = takeLibrary
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h, err := take(ctx, o)
	if err != nil {
		return err
	}
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, `"ready"`); err != nil {
		return err
	}
	var line string
	for {
		if _, err := fmt.Fscanln(in, &line); err != nil {
			return h.close()
		}
		pprof.StopCPUProfile()
		if err := json.NewEncoder(out).Encode(h.report()); err != nil {
			return err
		}
	}
}

// holder is one side's leases.
type holder struct {
	leases     int
	bytes      int64 // of the heap and stacks, with one lease
	goroutines int   // the same
	lost       func() int
	close      func() error
	keep       any
}

// report counts what has come since there was one lease. Goroutines of requests
// come and go: the fewest of several looks are those that stay.
func (h *holder) report() held {
	n := float64(h.leases - 1)
	fewest := runtime.NumGoroutine()
	for range 200 {
		time.Sleep(5 * time.Millisecond)
		fewest = min(fewest, runtime.NumGoroutine())
	}
	r := held{
		Bytes:      float64(inUse()-h.bytes) / n,
		Goroutines: max(0, float64(fewest-h.goroutines-constant)) / n,
		Lost:       h.lost(),
	}
	runtime.KeepAlive(h.keep)
	return r
}

// constant is how many goroutines more a client may have with ten thousand
// leases than with one: those of connections and streams.
const constant = 32

func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go in the first round
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// many calls f for 0 to n-1, 64 at a time.
func many(n int, f func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, 64)
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				errs[w] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func takeOurs(ctx context.Context, o holderOrder) (*holder, error) {
	us, err := newOurs(o.Endpoints, stint.Options{})
	if err != nil {
		return nil, err
	}
	leases := make([]*stint.Lease, o.Leases)
	acquire := func(i int) (err error) {
		leases[i], err = us.client.Acquire(ctx, fmt.Sprint("job/", i))
		return err
	}
	if err := acquire(0); err != nil {
		return nil, err
	}
	h := &holder{leases: o.Leases, bytes: inUse(), goroutines: runtime.NumGoroutine(), keep: leases}
	h.lost = func() (n int) {
		for _, l := range leases {
			if l.Err() != nil {
				n++
			}
		}
		return n
	}
	h.close = func() error {
		_ = us.close() // what is not given back in time runs out by itself
		return nil
	}
	return h, many(o.Leases-1, func(i int) error { return acquire(i + 1) })
}

// takeLibrary keeps as many leases alive with the library's KeepAlive, each with
// a key. It renews after a third of the length: 9 s make it 3 s.
func takeLibrary(ctx context.Context, o holderOrder) (*holder, error) {
	etcd, err := client(o.Leader)
	if err != nil {
		return nil, err
	}
	alive, ids := make([]<-chan *clientv3.LeaseKeepAliveResponse, o.Leases), make([]clientv3.LeaseID, o.Leases)
	acquire := func(i int) error {
		g, err := etcd.Grant(ctx, 9)
		if err != nil {
			return err
		}
		if _, err := etcd.Put(ctx, fmt.Sprint("/library/job/", i), "x", clientv3.WithLease(g.ID)); err != nil {
			return err
		}
		ids[i] = g.ID
		alive[i], err = etcd.KeepAlive(ctx, g.ID)
		return err
	}
	if err := acquire(0); err != nil {
		return nil, err
	}
	h := &holder{leases: o.Leases, bytes: inUse(), goroutines: runtime.NumGoroutine(), keep: alive}
	h.lost = func() int { return 0 }
	h.close = func() error { // what comes after must not be measured beside their expiry
		_ = many(o.Leases, func(i int) error { _, _ = etcd.Revoke(ctx, ids[i]); return nil })
		return etcd.Close()
	}
	return h, many(o.Leases-1, func(i int) error { return acquire(i + 1) })
}
