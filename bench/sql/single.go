//go:build !race

package main

import (
	"database/sql"
	"time"
)

// single updates one row per transaction, as fast as one connection can.
func (b *bench) single(s *side) error {
	b.title("%s: single updates, one connection, durable", s.server)
	query := s.q("UPDATE counter SET n = n + 1 WHERE id = ?")
	update := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(b.ctx, query, 1)
		return err
	}
	names := []string{"UPDATE by itself", "transaction, unfenced", "transaction, fenced"}
	rates := make([][]float64, len(names))
	for range b.scale.turns {
		for i, do := range []func() error{
			func() error { _, err := s.db.ExecContext(b.ctx, query, 1); return err },
			func() error { return s.plain(b.ctx, update) },
			func() error { return s.fenced(b.ctx, update) },
		} {
			r, err := b.rate(do)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], r)
		}
	}
	for i, name := range names {
		b.row(name, "%s a second", intervalOf(rates[i]).format(0))
	}
	b.row("  fenced over a plain transaction", "%.2f", intervalOf(rates[2]).median/intervalOf(rates[1]).median)
	return nil
}

// rate is how often a second do can be done.
func (b *bench) rate(do func() error) (float64, error) {
	begun, n := time.Now(), 0
	for ; time.Since(begun) < b.scale.each; n++ {
		if err := do(); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}
