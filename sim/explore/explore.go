package explore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// Options are what an exploration is to do.
type Options struct {
	Runs    uint64 // seeds Seed, Seed+1, …
	Seed    uint64
	Without protocol.Rules
	Raft    bool // every lock service that may be is on real Raft, not one in ten
	Workers int  // goroutines; each run is one goroutine's. Zero: one
	// Progress is called about once a second, from one goroutine at a time.
	Progress func(Report)
}

// Report is what an exploration has found so far.
type Report struct {
	Runs      uint64        // that were finished
	Simulated time.Duration // true time of all of them
	Steps     uint64
	Took      time.Duration // on the clock of whoever asks
	Found     *Found        // the violation of the lowest seed; nil: none
}

// Found is a violation.
type Found struct {
	Seed   uint64
	Plan   Plan
	Broken Broken
}

// Explore runs the plans of many seeds until one breaks a promise, the context
// ends or all are done. What it finds does not depend on the number of workers:
// the lowest seed that breaks something, as long as the context lasts.
func Explore(ctx context.Context, o Options) Report {
	e := &explorer{o: o, started: authority.BootClock{}.Now()}
	e.best.Store(^uint64(0))
	var wg sync.WaitGroup
	for range max(1, o.Workers) {
		wg.Go(func() { e.work(ctx) })
	}
	done := make(chan struct{})
	var watcher sync.WaitGroup
	if o.Progress != nil {
		watcher.Go(func() { e.watch(done) })
	}
	wg.Wait()
	close(done)
	watcher.Wait()
	return e.report()
}

type explorer struct {
	o       Options
	started authority.Instant
	next    atomic.Uint64
	best    atomic.Uint64 // the lowest seed that broke something, counted from zero

	mu    sync.Mutex
	sofar Report
}

func (e *explorer) work(ctx context.Context) {
	for ctx.Err() == nil {
		n := e.next.Add(1) - 1
		if n >= e.o.Runs || n > e.best.Load() {
			return
		}
		seed := e.o.Seed + n
		p := Draw(seed, e.o.Without)
		if e.o.Raft && p.raftable() {
			p.Raft = 1
		}
		e.add(n, seed, p, Run(p, false))
	}
}

func (e *explorer) add(n, seed uint64, p Plan, r Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sofar.Runs++
	e.sofar.Simulated += r.Ended
	e.sofar.Steps += r.Steps
	if r.Broken != nil && n < e.best.Load() {
		e.best.Store(n)
		e.sofar.Found = &Found{seed, p, *r.Broken}
	}
}

func (e *explorer) report() Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.sofar
	r.Took = authority.BootClock{}.Now().Sub(e.started)
	return r
}

func (e *explorer) watch(done chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.o.Progress(e.report())
		case <-done:
			return
		}
	}
}
