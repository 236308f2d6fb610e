package idempotent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// SQLOptions sets up a SQL store. Dialect is required.
type SQLOptions struct {
	// Dialect is the database's, as in sqlfence.Options.
	Dialect sqlfence.Dialect
	// Table is the table that Migrate makes. Default "stint_effects". Letters, digits
	// and '_', at most 48.
	Table string
}

// SQL is a Store in the database that has the fence. It is safe for concurrent
// use. Its transactions are admitted with AdmitSQL: they do not count as the
// caller's own of the same claim.
type SQL struct {
	db    *sql.DB
	fence *sqlfence.Fence
	d     sqlfence.Dialect
	table string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// NewSQL makes a store over db, which must be the database of the fence. It does
// not touch it: Migrate makes the table.
func NewSQL(db *sql.DB, f *sqlfence.Fence, o SQLOptions) (*SQL, error) {
	var bad []error
	if db == nil {
		bad = append(bad, errors.New("the *sql.DB is nil"))
	}
	if f == nil {
		bad = append(bad, errors.New("the fence is nil"))
	}
	if _, ok := tables[o.Dialect]; !ok {
		bad = append(bad, fmt.Errorf("unknown Dialect %v", o.Dialect))
	}
	if o.Table == "" {
		o.Table = "stint_effects"
	}
	if !tableName.MatchString(o.Table) {
		bad = append(bad, fmt.Errorf("table name %q: it is a letter or '_', then letters, digits and '_', 48 characters at most", o.Table))
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("idempotent: %w", errors.Join(bad...))
	}
	return &SQL{db, f, o.Dialect, o.Table}, nil
}

// tables make the table. Keys are compared by their bytes, whatever the database's
// collation is. "changed" is for people.
var tables = map[sqlfence.Dialect][]string{
	sqlfence.SQLite: {`CREATE TABLE IF NOT EXISTS {t} (
  id      TEXT    NOT NULL PRIMARY KEY,
  state   TEXT    NOT NULL,
  token   INTEGER NOT NULL,
  nonce   TEXT    NOT NULL,
  try     TEXT    NOT NULL,
  result  TEXT    NOT NULL,
  changed TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID`,
		`CREATE INDEX IF NOT EXISTS {t}_open ON {t} (id) WHERE state <> 'DONE'`},
	sqlfence.PostgreSQL: {`CREATE TABLE IF NOT EXISTS {t} (
  id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  state   TEXT        NOT NULL,
  token   BIGINT      NOT NULL,
  nonce   TEXT        NOT NULL,
  try     TEXT        NOT NULL,
  result  TEXT        NOT NULL,
  changed TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP
)`,
		`CREATE INDEX IF NOT EXISTS {t}_open ON {t} (id) WHERE state <> 'DONE'`},
	sqlfence.MariaDB: {`CREATE TABLE IF NOT EXISTS {t} (
  id      VARBINARY(1024) NOT NULL PRIMARY KEY,
  state   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token   BIGINT NOT NULL,
  nonce   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  try     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  result  LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  INDEX {t}_open (state, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`},
}

// q fills in the table, and numbers the placeholders where the database wants it.
func (s *SQL) q(query string) string {
	return s.d.Placeholders(strings.ReplaceAll(query, "{t}", s.table))
}

// MigrateSQL is what Migrate runs, for those who keep their migrations elsewhere.
// Every statement may be repeated.
func (s *SQL) MigrateSQL() []string {
	var all []string
	for _, statement := range tables[s.d] {
		all = append(all, strings.ReplaceAll(statement, "{t}", s.table))
	}
	return all
}

// Migrate makes the table. It is harmless to repeat, and when several processes do
// it at once.
func (s *SQL) Migrate(ctx context.Context) error {
	for _, statement := range s.MigrateSQL() {
		var err error
		for range 3 { // two at once may collide in PostgreSQL's catalogue
			if _, err = s.db.ExecContext(ctx, statement); err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("idempotent: migrate %s: %w. Repeating it is harmless", s.table, err)
		}
	}
	return nil
}

const columns = "state, token, nonce, try, result"

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *SQL) read(ctx context.Context, from querier, key string) (r Record, err error) {
	err = from.QueryRowContext(ctx, s.q("SELECT "+columns+" FROM {t} WHERE id = ?"), s.id(key)).
		Scan(&r.State, &r.Grant.Token, &r.Grant.Nonce, &r.Nonce, &r.Result)
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, nil
	}
	return r, err
}

// id is the key as an argument: MariaDB would convert a string to the
// connection's character set.
func (s *SQL) id(key string) any {
	if s.d == sqlfence.MariaDB {
		return []byte(key)
	}
	return key
}

// Get is Store's.
func (s *SQL) Get(ctx context.Context, key string) (Record, error) {
	r, err := s.read(ctx, s.db, key)
	if err != nil {
		return Record{}, fmt.Errorf("idempotent: read %q: %w", key, err)
	}
	return r, nil
}

// Set is Store's: one transaction, which the fence admits first.
func (s *SQL) Set(ctx context.Context, c fence.Claim, key string, was, now Record) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("idempotent: write %q: nothing was written: %w", key, err)
	}
	defer func() { _ = tx.Rollback() }() // after COMMIT there is nothing left of it
	query, args := s.fence.AdmitSQL(c)
	n, err := count(tx.ExecContext(ctx, query, args...))
	if err == nil && n != 1 {
		_ = tx.Rollback()
		if err = s.fence.Check(ctx, c); err == nil {
			err = errors.New("the fence refused the write, and admits it now")
		}
		return err
	}
	if err == nil {
		err = s.swap(ctx, tx, key, was, now)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil && !definite(err) {
		err = fmt.Errorf("idempotent: write %q: %w", key, err)
	}
	return err
}

func (s *SQL) swap(ctx context.Context, tx *sql.Tx, key string, was, now Record) error {
	n, err := count(s.put(ctx, tx, key, was, now))
	if err != nil || n == 1 {
		return err
	}
	is, err := s.read(ctx, tx, key)
	switch {
	case err != nil:
		return err
	case is == now:
		return nil
	}
	return changed(key, was, is)
}

func (s *SQL) put(ctx context.Context, tx *sql.Tx, key string, was, now Record) (sql.Result, error) {
	next := []any{string(now.State), int64(now.Grant.Token), now.Grant.Nonce, now.Nonce, now.Result}
	as := []any{s.id(key), string(was.State), int64(was.Grant.Token), was.Grant.Nonce, was.Nonce}
	const same = " WHERE id = ? AND state = ? AND token = ? AND nonce = ? AND try = ?"
	switch {
	case was == (Record{}) && now == (Record{}):
		return nil, errors.New("nothing is to be written over nothing")
	case was == (Record{}):
		insert := "INSERT INTO {t} (" + columns + ", id) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
		if s.d == sqlfence.MariaDB {
			insert = "INSERT IGNORE INTO {t} (" + columns + ", id) VALUES (?, ?, ?, ?, ?, ?)"
		}
		return tx.ExecContext(ctx, s.q(insert), append(next, s.id(key))...)
	case now == (Record{}):
		return tx.ExecContext(ctx, s.q("DELETE FROM {t}"+same), as...)
	}
	return tx.ExecContext(ctx, s.q("UPDATE {t} SET state = ?, token = ?, nonce = ?, try = ?, result = ?, changed = CURRENT_TIMESTAMP"+same), append(next, as...)...)
}

func count(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// List is Store's.
func (s *SQL) List(ctx context.Context) (all []Listed, err error) {
	where := "state <> 'DONE'"
	if s.d == sqlfence.MariaDB { // there is no partial index
		where = "state IN ('PENDING', 'UNKNOWN')"
	}
	rows, err := s.db.QueryContext(ctx, s.q("SELECT id, "+columns+" FROM {t} WHERE "+where+" ORDER BY id"))
	if err != nil {
		return nil, fmt.Errorf("idempotent: list: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var l Listed
		if err := rows.Scan(&l.Key, &l.State, &l.Grant.Token, &l.Grant.Nonce, &l.Nonce, &l.Result); err != nil {
			return nil, fmt.Errorf("idempotent: list: %w", err)
		}
		all = append(all, l)
	}
	return all, rows.Err()
}
