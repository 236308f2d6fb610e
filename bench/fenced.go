//go:build !race

package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// fenced compares a transaction of the user's with the same one behind the
// fence: the price of the check.
func (b *bench) fenced() error {
	dir, err := b.subdir()
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", dsn(filepath.Join(dir, "store.db")))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE invoice(customer INTEGER NOT NULL)`); err != nil {
		return err
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite})
	if err != nil {
		return err
	}
	if err := f.Migrate(ctx); err != nil {
		return err
	}
	claim, err := f.Raise(ctx, "billing", fence.Grant{Token: 7, Nonce: "a"})
	if err != nil {
		return err
	}

	insert := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO invoice VALUES (1)`)
		return err
	}
	plain := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := insert(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	behind := func() error { return f.InTx(ctx, claim, nil, insert) }

	var rates [2]float64
	for range b.rounds {
		for i, once := range []func() error{plain, behind} {
			r, err := rate(b.each, once)
			if err != nil {
				return err
			}
			rates[i] = max(rates[i], r)
		}
	}
	b.row("transactions of one insert, without the fence", "%.0f /s", rates[0])
	b.row("the same in InTx", "%.0f /s, %.2f of it", rates[1], rates[1]/rates[0])
	return nil
}

// rate is how often once can be done in a second, one after the other.
func rate(d time.Duration, once func() error) (float64, error) {
	n := 0
	begun := time.Now()
	for time.Since(begun) < d {
		if err := once(); err != nil {
			return 0, fmt.Errorf("after %d times: %w", n, err)
		}
		n++
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}
