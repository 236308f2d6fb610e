//go:build !race

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
)

// The bars of cycles: this many times the library's shared Session.
var cyclesAtLeast = map[[2]int]float64{ // by nodes and workers
	{1, 1}: 0.95, {3, 1}: 0.95,
	{1, 64}: 2, {3, 64}: 2.3,
}

// cycles lets workers lock and unlock, each a name of its own.
func (b *bench) cycles(s *servers) error {
	us, lib, done, err := b.sides(s)
	if err != nil {
		return err
	}
	defer done()
	b.title("lock and unlock, cycles/s, %d nodes (medians of %d turns)", len(s.members), b.scale.turns)
	b.row("workers", "%10s %10s %10s %8s %8s", "library", "client", "authority", "client×", "auth.×")
	for _, workers := range []int{1, 8, 64} {
		if b.workers > 0 && workers != b.workers {
			continue
		}
		of := func(side string, cycle func(context.Context, string) error) func() (pace, error) {
			return func() (pace, error) { return b.paceOf(s, side, workers, cycle) }
		}
		all, err := turns(b.scale.turns, of("library", lib.cycle), of("client", us.cycle), of("authority", us.bareCycle))
		if err != nil {
			return err
		}
		l, c, a := middling(all[0]), middling(all[1]), middling(all[2])
		b.row(fmt.Sprint(workers), "%10.0f %10.0f %10.0f %8.2f %8.2f", l.rate, c.rate, a.rate, c.rate/l.rate, a.rate/l.rate)
		b.row("  us of CPU, client + servers", "%5.0f+%4.0f %5.0f+%4.0f %5.0f+%4.0f", l.client, l.servers, c.client, c.servers, a.client, a.servers)
		b.row("  allocations", "%10.0f %10.0f %10.0f", l.allocations, c.allocations, a.allocations)
		if bar := cyclesAtLeast[[2]int{len(s.members), workers}]; bar > 0 {
			b.atLeast("client over library", c.rate/l.rate, bar)
		}
	}
	return nil
}

// pace is how fast cycles are, and what one costs.
type pace struct {
	rate            float64 // a second
	client, servers float64 // microseconds of CPU
	allocations     float64 // of the client
}

func middling(all []pace) pace {
	of := func(f func(pace) float64) float64 {
		var v []float64
		for _, p := range all {
			v = append(v, f(p))
		}
		return median(v)
	}
	return pace{
		of(func(p pace) float64 { return p.rate }), of(func(p pace) float64 { return p.client }),
		of(func(p pace) float64 { return p.servers }), of(func(p pace) float64 { return p.allocations }),
	}
}

// paceOf measures one turn of a side, in this process and those of the servers.
func (b *bench) paceOf(s *servers, side string, workers int, cycle func(context.Context, string) error) (pace, error) {
	stop, err := b.startProfile(side)
	if err != nil {
		return pace{}, err
	}
	defer stop()
	client, servers, err := s.cpu()
	if err != nil {
		return pace{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rate, n, err := b.rate(workers, cycle)
	if err != nil {
		return pace{}, err
	}
	runtime.ReadMemStats(&after)
	clientAfter, serversAfter, err := s.cpu()
	if err != nil {
		return pace{}, err
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / n }
	return pace{rate, per(clientAfter - client), per(serversAfter - servers), float64(after.Mallocs-before.Mallocs) / n}, nil
}

// cpu is what this process and the servers have used so far.
func (s *servers) cpu() (client, servers time.Duration, err error) {
	if client, err = cpuOf(os.Getpid()); err != nil {
		return 0, 0, err
	}
	for _, m := range s.members {
		one, err := cpuOf(m.cmd.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		servers += one
	}
	return client, servers, nil
}

// startProfile writes a CPU profile of this turn, where profiles are asked for.
func (b *bench) startProfile(side string) (stop func(), err error) {
	if b.profile == "" {
		return func() {}, nil
	}
	b.profiles++
	f, err := os.Create(fmt.Sprintf("%s.%s.%d", b.profile, side, b.profiles))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

// rate is how many cycles a second the workers make together, and how many they
// have made.
func (b *bench) rate(workers int, cycle func(ctx context.Context, name string) error) (rate, n float64, _ error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begun := time.Now()
	for w := range workers {
		all.Go(func() {
			name := fmt.Sprint("job", w)
			for time.Since(begun) < b.scale.each && failed.Load() == nil {
				if err := cycle(b.ctx, name); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, 0, *err
	}
	n = float64(done.Load())
	return n / time.Since(begun).Seconds(), n, nil
}
