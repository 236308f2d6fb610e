//go:build !race

package main

import (
	"context"
	"fmt"
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
		rate := func(cycle func(context.Context, string) error) func() (float64, error) {
			return func() (float64, error) { return b.rate(workers, cycle) }
		}
		all, err := turns(b.scale.turns, rate(lib.cycle), rate(us.cycle), rate(us.bareCycle))
		if err != nil {
			return err
		}
		l, c, a := median(all[0]), median(all[1]), median(all[2])
		b.row(fmt.Sprint(workers), "%10.0f %10.0f %10.0f %8.2f %8.2f", l, c, a, c/l, a/l)
		if bar := cyclesAtLeast[[2]int{len(s.members), workers}]; bar > 0 {
			b.atLeast("client over library", c/l, bar)
		}
	}
	return nil
}

// rate is how many cycles a second the workers make together.
func (b *bench) rate(workers int, cycle func(ctx context.Context, name string) error) (float64, error) {
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
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), nil
}
