package billing

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// Store is the user's database: what is to be billed, what was billed, and how
// far the job has come. The fence's own table lies beside these.
type Store struct {
	DB      *sql.DB
	Dialect sqlfence.Dialect // zero: SQLite
	Prefix  string           // of the names of all tables
}

// schema has, on purpose, no unique key that would catch a double bill: not on
// charges, and not on chunks. Only the fence stands in its way. {p} stands for
// the prefix.
var schema = []string{
	`CREATE TABLE {p}invoices (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL, chunk INTEGER NOT NULL)`,
	`CREATE INDEX {p}invoices_by_chunk ON {p}invoices (chunk)`,
	`CREATE TABLE {p}charges (invoice INTEGER NOT NULL, cents INTEGER NOT NULL, worker TEXT NOT NULL, token BIGINT NOT NULL)`,
	`CREATE INDEX {p}charges_by_invoice ON {p}charges (invoice)`,
	`CREATE TABLE {p}chunks (chunk INTEGER NOT NULL, worker TEXT NOT NULL, token BIGINT NOT NULL)`,
}

// OpenStore opens a database: the SQLite file at a path, or what a URL of
// PostgreSQL or MariaDB names. A writer that finds another one at work in a file
// waits for at most busy.
func OpenStore(place, prefix string, busy time.Duration) (*Store, error) {
	if !IsURL(place) {
		db, err := OpenDB(place, busy)
		return &Store{DB: db, Dialect: sqlfence.SQLite, Prefix: prefix}, err
	}
	db, dialect, err := sqlurl.Open(place)
	return &Store{DB: db, Dialect: dialect, Prefix: prefix}, err
}

// IsURL tells a URL from the path of a file.
func IsURL(place string) bool { return strings.Contains(place, "://") }

// OpenDB opens the SQLite file at path.
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

// Fences is the store's fence table.
func (s *Store) Fences() (*sqlfence.Fence, error) {
	o := sqlfence.Options{Dialect: s.Dialect}
	if o.Dialect == 0 {
		o.Dialect = sqlfence.SQLite
	}
	if s.Prefix != "" {
		o.Table = s.Prefix + "fence"
	}
	return sqlfence.New(s.DB, o)
}

// q fills in the prefix, and turns each ? into what the database wants.
func (s *Store) q(query string) string {
	return sqlurl.Arguments(s.Dialect, strings.ReplaceAll(query, "{p}", s.Prefix))
}

// rows is an INSERT of n rows.
func (s *Store) rows(into string, columns, n int) string {
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	return s.q("INSERT INTO " + into + " VALUES " + row + strings.Repeat(", "+row, n-1))
}

// atOnce is how many rows go in one statement: few enough for every database's
// bound on arguments.
const atOnce = 500

// Create makes the tables and the invoices to be billed: chunks times perChunk
// of different amounts.
func (s *Store) Create(ctx context.Context, chunks, perChunk int) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, make := range schema {
		if _, err := tx.ExecContext(ctx, s.q(make)); err != nil {
			return err
		}
	}
	for from, all := 1, chunks*perChunk; from <= all; from += atOnce {
		n := min(atOnce, all-from+1)
		var args []any
		for id := from; id < from+n; id++ {
			args = append(args, id, fmt.Sprint("customer ", id), 100+id*7919%100000, 1+(id-1)/perChunk)
		}
		if _, err := tx.ExecContext(ctx, s.rows("{p}invoices", 4, n), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// DropAt removes every table and function whose name begins with prefix, which
// is not empty.
func DropAt(ctx context.Context, place, prefix string) error {
	s, err := OpenStore(place, prefix, time.Minute)
	if err != nil {
		return err
	}
	defer s.DB.Close()
	here := "current_schema()"
	if s.Dialect == sqlfence.MariaDB {
		here = "DATABASE()"
	}
	for _, query := range []string{
		"SELECT 'TABLE', table_name FROM information_schema.tables WHERE table_schema = " + here,
		"SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = " + here,
	} {
		if err := s.dropAll(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) dropAll(ctx context.Context, query string) error {
	rows, err := s.DB.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var kind, name string
		if err := rows.Scan(&kind, &name); err != nil {
			return err
		}
		if strings.HasPrefix(name, s.Prefix) {
			drops = append(drops, "DROP "+kind+" "+name)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, drop := range drops {
		if _, err := s.DB.ExecContext(ctx, drop); err != nil {
			return err
		}
	}
	return nil
}

// Progress reads how many chunks there are and how many of them are done.
func (s *Store) Progress(ctx context.Context) (done, chunks int, err error) {
	err = s.DB.QueryRowContext(ctx,
		s.q(`SELECT (SELECT coalesce(max(chunk), 0) FROM {p}chunks), (SELECT coalesce(max(chunk), 0) FROM {p}invoices)`)).Scan(&done, &chunks)
	return done, chunks, err
}

// Charge is one line of a bill.
type Charge struct {
	Invoice, Cents int64
}

// Build computes the charges of a chunk in memory. It writes nothing.
func (s *Store) Build(ctx context.Context, chunk int) ([]Charge, error) {
	rows, err := s.DB.QueryContext(ctx, s.q(`SELECT id, cents FROM {p}invoices WHERE chunk = ? ORDER BY id`), chunk)
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
	middle := len(charges) / 2
	if err := s.charge(ctx, tx, who, token, charges[:middle]); err != nil {
		return err
	}
	half()
	if err := s.charge(ctx, tx, who, token, charges[middle:]); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, s.q(`INSERT INTO {p}chunks (chunk, worker, token) VALUES (?, ?, ?)`), chunk, who, token)
	return err
}

func (s *Store) charge(ctx context.Context, tx *sql.Tx, who string, token fence.Token, charges []Charge) error {
	for some := range slices.Chunk(charges, atOnce) {
		var args []any
		for _, c := range some {
			args = append(args, c.Invoice, c.Cents, who, token)
		}
		if _, err := tx.ExecContext(ctx, s.rows("{p}charges", 4, len(some)), args...); err != nil {
			return err
		}
	}
	return nil
}
