//go:build !race

package main

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// mostFenced is how much longer a chunk may take with the fence.
const mostFenced = 1.03

// chunks writes chunks of rows, with the fence and without.
func (b *bench) chunks(s *side) error {
	n := b.scale.chunk
	b.title("%s: a chunk of %d rows in a transaction, durable", s.server, n)
	query, args := s.insert(n)
	insert := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(b.ctx, query, args...)
		return err
	}
	err := b.compare(s, "multi-row INSERT",
		func() error { return s.plain(b.ctx, insert) },
		func() error { return s.fenced(b.ctx, insert) },
		func(r interval) {
			b.bar("fenced over unfenced", fmt.Sprintf("at most %.2f beyond the noise; surely above %.3f", mostFenced, r.low), r.low <= mostFenced)
		})
	if err != nil || s.pool == nil {
		return err
	}
	return b.copies(s, n)
}

// insert is one statement for n rows.
func (s *side) insert(n int) (query string, args []any) {
	for i := range n {
		args = append(args, i, 100+i%900, int64(s.claim.Grant.Token))
	}
	return s.q("INSERT INTO charges (invoice, cents, token) VALUES " + strings.Repeat("(?, ?, ?), ", n-1) + "(?, ?, ?)"), args
}

// compare measures both, and has the ratio judged: missed is what is beyond a
// bar without doubt.
func (b *bench) compare(s *side, what string, plain, fenced func() error, judge func(ratio interval)) error {
	if _, err := s.db.ExecContext(b.ctx, "TRUNCATE TABLE charges"); err != nil {
		return err
	}
	if _, _, _, err := b.pairs(3, plain, fenced); err != nil { // to warm up
		return err
	}
	p, f, ratio, err := b.pairs(b.scale.pairs, plain, fenced)
	if err != nil {
		return err
	}
	r := intervalOf(ratio)
	b.row(what+", unfenced", "%s ms", intervalOf(scaled(p, 1000)).format(2))
	b.row(what+", fenced", "%s ms", intervalOf(scaled(f, 1000)).format(2))
	b.row("  ratio of pairs", "%s", r.format(3))
	judge(r)
	return nil
}

func (b *bench) copies(s *side, n int) error {
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{int64(i), int64(100 + i%900), int64(s.copy.Grant.Token)}
	}
	write := func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(b.ctx, pgx.Identifier{"charges"}, []string{"invoice", "cents", "token"}, pgx.CopyFromRows(rows))
		return err
	}
	plain := func() error { return pgx.BeginFunc(b.ctx, s.pool, write) }
	fenced := func() error { return s.pg.InTx(b.ctx, s.copy, pgx.TxOptions{}, write) }
	// Round trips are what is promised here: the rest is so short that it is all
	// waiting for the disk.
	if err := b.compare(s, "COPY", plain, fenced, func(interval) {}); err != nil {
		return err
	}
	// The fewest of several: the server's answer may come in two parts.
	count := func(do func() error) (fewest int64, err error) {
		for i := range 5 {
			before := s.trips.n.Load()
			if err := do(); err != nil {
				return 0, err
			}
			if n := s.trips.n.Load() - before; i == 0 || n < fewest {
				fewest = n
			}
		}
		return fewest, nil
	}
	p, err := count(plain)
	if err != nil {
		return err
	}
	f, err := count(fenced)
	if err != nil {
		return err
	}
	b.row("  round trips", "%d unfenced, %d fenced", p, f)
	b.bar("further round trips", fmt.Sprintf("at most 1; %d", f-p), f-p <= 1)
	return nil
}
