//go:build !race

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/fence"
)

// raise has a crowd contend for one name, in two ways. Their tokens come from one
// counter and arrive in another order, so that some are refused: that is a
// raise, too, and it is answered. Or all come with one grant, so that all are
// admitted. Beside it the same crowd does the least that locks a row and changes
// it.
func (b *bench) raise(s *side) error {
	n := b.scale.crowds
	b.title("%s: %d contenders for one row, durable", s.server, n)
	var admitted, refused atomic.Int64
	raise := func(name string, grant func() fence.Grant) func() error {
		return func() error {
			_, err := s.f.Raise(b.ctx, name, grant())
			switch {
			case err == nil:
				admitted.Add(1)
			case errors.Is(err, fence.ErrStale):
				refused.Add(1)
				err = nil
			}
			return err
		}
	}
	one := s.grant()
	ways := []struct {
		what string
		do   func() error
	}{
		{"SELECT … FOR UPDATE, UPDATE", s.bare(b.ctx)},
		{"raise, a token each", raise("contended", s.grant)},
		{"raise, all by one grant", raise("contended by one", func() fence.Grant { return one })},
	}
	rates, ratios := make([][]float64, len(ways)), make([][]float64, len(ways))
	share := make([]float64, len(ways))
	for turn := range b.scale.turns + 1 {
		var now []float64
		for i, w := range ways {
			admitted.Store(0)
			refused.Store(0)
			r, err := b.crowd(n, w.do)
			if err != nil {
				return fmt.Errorf("%s: %w", w.what, err)
			}
			now = append(now, r)
			share[i] = float64(admitted.Load()) / float64(max(admitted.Load()+refused.Load(), 1))
		}
		for i := range ways {
			if turn > 0 { // the first is to warm up
				rates[i], ratios[i] = append(rates[i], now[i]), append(ratios[i], now[i]/now[0])
			}
		}
	}
	for i, w := range ways {
		more := ""
		if i > 0 {
			more = fmt.Sprintf(", %.0f %% of them admitted", 100*share[i])
		}
		b.row(w.what, "%s a second%s", intervalOf(rates[i]).format(0), more)
	}
	for i, w := range ways[1:] {
		q := intervalOf(ratios[i+1])
		b.row("  "+w.what+", over bare", "%s", q.format(2))
		b.bar(w.what, fmt.Sprintf("at least 1 within the noise; surely below %.2f", q.high), q.high >= 1)
	}
	return nil
}

// bare locks a row and changes it, and knows no fence.
func (s *side) bare(ctx context.Context) func() error {
	lock, update := s.q("SELECT n FROM counter WHERE id = ? FOR UPDATE"), s.q("UPDATE counter SET n = ? WHERE id = ?")
	return func() error {
		return s.plain(ctx, func(tx *sql.Tx) error {
			var v int64
			if err := tx.QueryRowContext(ctx, lock, 2).Scan(&v); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, update, v+1, 2)
			return err
		})
	}
}

// crowd is how often a second n goroutines do it together.
func (b *bench) crowd(n int, do func() error) (float64, error) {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, n)
	begun := time.Now()
	for i := range n {
		all.Go(func() {
			for time.Since(begun) < b.scale.each*2 && errs[i] == nil {
				errs[i] = do()
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds(), errors.Join(errs...)
}
