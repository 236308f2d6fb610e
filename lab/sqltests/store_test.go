package sqltests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// store is a fence and the data beside it. Every write is a row of its own: what
// was written twice shows.
type store struct {
	place
	db *sql.DB
	f  *sqlfence.Fence
}

func (p place) open(hook faultsql.Hook) (*store, error) {
	var db *sql.DB
	var err error
	if hook == nil {
		db, err = sql.Open(p.Driver, p.DSN)
	} else {
		db, err = faultsql.Open(p.Driver, p.DSN, hook)
	}
	if err != nil {
		return nil, err
	}
	return p.over(db)
}

func (p place) over(db *sql.DB) (*store, error) {
	db.SetMaxIdleConns(20) // a login takes longer than most tests
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: p.Dialect, Table: p.Fence, Settle: p.Settle, LockTimeout: p.Lock})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{p, db, f}, nil
}

// fresh opens a store and makes its tables.
func (p place) fresh(t testing.TB, hook faultsql.Hook) *store {
	t.Helper()
	s := p.reopen(t, hook)
	must(t, s.create(background(t)))
	return s
}

func (p place) reopen(t testing.TB, hook faultsql.Hook) *store {
	t.Helper()
	s, err := p.open(hook)
	must(t, err)
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (p place) create() error {
	s, err := p.open(nil)
	if err != nil {
		return err
	}
	defer s.close()
	return s.create(context.Background())
}

func (s *store) close() { _ = s.db.Close() }

func (s *store) create(ctx context.Context) error {
	if err := s.f.Migrate(ctx); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, s.dataTable())
	return err
}

func (p place) dataTable() string {
	switch p.Dialect {
	case sqlfence.PostgreSQL:
		return "CREATE TABLE IF NOT EXISTS " + p.Data + " (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k TEXT NOT NULL, v TEXT NOT NULL, token BIGINT NOT NULL)"
	case sqlfence.MariaDB:
		return "CREATE TABLE IF NOT EXISTS " + p.Data + " (id BIGINT AUTO_INCREMENT PRIMARY KEY, k TEXT NOT NULL, v TEXT NOT NULL, token BIGINT NOT NULL) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
	}
	return "CREATE TABLE IF NOT EXISTS " + p.Data + " (id INTEGER PRIMARY KEY, k TEXT NOT NULL, v TEXT NOT NULL, token INTEGER NOT NULL)"
}

// q fills in the table and turns each ? into what the driver wants.
func (p place) q(query string) string {
	query = strings.ReplaceAll(query, "{d}", p.Data)
	if p.Dialect != sqlfence.PostgreSQL {
		return query
	}
	parts := strings.Split(query, "?")
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i+1 < len(parts) {
			fmt.Fprint(&b, "$", i+1)
		}
	}
	return b.String()
}

func (s *store) write(ctx context.Context, c fence.Claim, key, value string, between func() error) error {
	return s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error {
		if between != nil {
			if err := between(); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, s.q("INSERT INTO {d} (k, v, token) VALUES (?, ?, ?)"), key, value, c.Grant.Token)
		return err
	})
}

func (s *store) read(ctx context.Context, key string) (v string, err error) {
	err = s.reading(ctx, func() error {
		return s.db.QueryRowContext(ctx, s.q("SELECT v FROM {d} WHERE k = ? ORDER BY id DESC LIMIT 1"), key).Scan(&v)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}

// count is how often the key was written.
func (s *store) count(t testing.TB, key string) int {
	t.Helper()
	n, err := s.howMany(background(t), "WHERE k = ?", key)
	must(t, err)
	return n
}

// howMany counts rows.
func (s *store) howMany(ctx context.Context, where string, args ...any) (n int, err error) {
	err = s.reading(ctx, func() error {
		return s.db.QueryRowContext(ctx, s.q("SELECT count(*) FROM {d} "+where), args...).Scan(&n)
	})
	return n, err
}

// reading repeats a read of the caller's own: at SERIALIZABLE PostgreSQL may give
// up a single SELECT for the sake of a COMMIT beside it.
func (s *store) reading(ctx context.Context, read func() error) error {
	for {
		err := read()
		if err == nil || !s.f.Retryable(err) || ctx.Err() != nil {
			return err
		}
	}
}

func (s *store) suite() fencetest.Store {
	return fencetest.Store{
		Fence: s.f, Row: s.f.Row, Bar: s.f.Bar, Prune: s.f.Prune,
		Write: s.write, Read: s.read,
		Remove: func(ctx context.Context) error {
			_, err := s.db.ExecContext(ctx, s.q("DELETE FROM {d}"))
			return err
		},
	}
}

func grant(token fence.Token, nonce string) fence.Grant {
	return fence.Grant{Token: token, Nonce: nonce}
}

func (s *store) raise(t testing.TB, name string, g fence.Grant) fence.Claim {
	t.Helper()
	c, err := s.f.Raise(background(t), name, g)
	must(t, err)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want one that matches %q", err, fmt.Sprint(target))
	}
}
