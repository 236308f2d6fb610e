package billing

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Store is the user's database: what is to be billed, what was billed, and how
// far the job has come. The fence's own table lies beside these.
type Store struct {
	DB *sql.DB
}

// schema has, on purpose, no unique key that would catch a double bill: not on
// charges, and not on chunks. Only the fence stands in its way.
const schema = `
CREATE TABLE invoices (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL, chunk INTEGER NOT NULL);
CREATE INDEX invoices_by_chunk ON invoices (chunk);
CREATE TABLE charges (invoice INTEGER NOT NULL, cents INTEGER NOT NULL, worker TEXT NOT NULL, token INTEGER NOT NULL);
CREATE TABLE chunks (chunk INTEGER NOT NULL, worker TEXT NOT NULL, token INTEGER NOT NULL);`

// fill makes chunks times perChunk invoices of different amounts.
const fill = `
WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?1 * ?2)
INSERT INTO invoices SELECT id, 'customer ' || id, 100 + (id * 7919) % 100000, 1 + (id - 1) / ?2 FROM n`

// OpenDB opens the SQLite file at path. A writer that finds another one at work
// waits for at most busy.
func OpenDB(path string, busy time.Duration) (*sql.DB, error) {
	return sql.Open("sqlite3", DSN(path, busy))
}

// DSN is the name under which the driver opens the file at path.
func DSN(path string, busy time.Duration) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), "journal_mode(wal)",
	}}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}

// Create makes the tables and the invoices to be billed.
func (s *Store) Create(ctx context.Context, chunks, perChunk int) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fill, chunks, perChunk); err != nil {
		return err
	}
	return tx.Commit()
}

// Progress reads how many chunks there are and how many of them are done.
func (s *Store) Progress(ctx context.Context) (done, chunks int, err error) {
	err = s.DB.QueryRowContext(ctx,
		`SELECT (SELECT coalesce(max(chunk), 0) FROM chunks), (SELECT coalesce(max(chunk), 0) FROM invoices)`).Scan(&done, &chunks)
	return done, chunks, err
}

// Charge is one line of a bill.
type Charge struct {
	Invoice, Cents int64
}

// Build computes the charges of a chunk in memory. It writes nothing.
func (s *Store) Build(ctx context.Context, chunk int) ([]Charge, error) {
	rows, err := s.DB.QueryContext(ctx, `SELECT id, cents FROM invoices WHERE chunk = ? ORDER BY id`, chunk)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Charge
	for rows.Next() {
		var c Charge
		if err := rows.Scan(&c.Invoice, &c.Cents); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// Bill writes a chunk's charges and, in the same transaction, that it is done.
// half is called when half of the charges are written.
func (s *Store) Bill(ctx context.Context, tx *sql.Tx, who string, token fence.Token, chunk int, charges []Charge, half func()) error {
	insert, err := tx.PrepareContext(ctx, `INSERT INTO charges (invoice, cents, worker, token) VALUES (?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for i, c := range charges {
		if i == len(charges)/2 {
			half()
		}
		if _, err := insert.ExecContext(ctx, c.Invoice, c.Cents, who, token); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO chunks (chunk, worker, token) VALUES (?, ?, ?)`, chunk, who, token)
	return err
}
