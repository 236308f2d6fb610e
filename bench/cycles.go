//go:build !race

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	_ "github.com/stint-dev/stint/backends/sqlite/sqlitelease"
)

// cycles counts how often a lease is acquired and released on SQLite: names of
// their own for each worker, and one name for all.
func (b *bench) cycles() error {
	for _, m := range []struct {
		what    string
		workers int
		name    func(worker int) string
	}{
		{"1 worker", 1, func(int) string { return "job" }},
		{"8 workers, a name each", 8, func(w int) string { return fmt.Sprint("job/", w) }},
		{"8 workers wait for one name", 8, func(int) string { return "job" }},
	} {
		best := 0.0
		for range b.rounds {
			r, err := b.cycle(m.workers, m.name)
			if err != nil {
				return err
			}
			best = max(best, r)
		}
		b.row(m.what, "%.0f /s", best)
	}
	return nil
}

// cycle lets workers acquire and release through one client for a while.
func (b *bench) cycle(workers int, name func(int) string) (float64, error) {
	dir, err := b.subdir()
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	a, err := authority.Open(ctx, "sqlite://"+filepath.Join(dir, "leases.db"))
	if err != nil {
		return 0, err
	}
	defer a.Close()
	c, err := stint.New(a, stint.Options{})
	if err != nil {
		return 0, err
	}
	defer c.Close()

	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begun := time.Now()
	for w := range workers {
		all.Go(func() {
			for time.Since(begun) < b.each && failed.Load() == nil {
				l, err := c.Acquire(ctx, name(w))
				if err == nil {
					err = l.Release(ctx)
				}
				if err != nil {
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
