// Package sqlfencetest tests fence/sqlfence on SQLite. It lies in this module
// so that the root module needs no driver.
package sqlfencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		child(task)
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	job   = "billing"
	table = `CREATE TABLE IF NOT EXISTS data (id INTEGER PRIMARY KEY, k TEXT NOT NULL, v TEXT NOT NULL)`
)

// mode is a way to open the store.
type mode struct{ name, params string }

// modes cross the journal modes with the ways to begin: a deferred transaction
// takes no lock at BEGIN, so only the fence's first statement orders it.
var modes = []mode{
	{"wal", "_pragma=busy_timeout(20)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"},
	{"wal deferred", "_pragma=busy_timeout(20)&_pragma=journal_mode(wal)&_pragma=synchronous(off)&_txlock=deferred"},
	{"rollback journal deferred", "_pragma=busy_timeout(20)&_pragma=journal_mode(delete)&_pragma=synchronous(off)&_txlock=deferred"},
}

func (m mode) dsn(t testing.TB) string {
	return "file:" + filepath.Join(t.TempDir(), "store.db") + "?" + m.params
}

// store is a fence and the data beside it. Every write is a row of its own: what
// was written twice shows.
type store struct {
	db *sql.DB
	f  *sqlfence.Fence
}

func openStore(dsn string, hook faultsql.Hook) (*store, error) {
	var db *sql.DB
	var err error
	if hook == nil {
		db, err = sql.Open("sqlite3", dsn)
	} else {
		db, err = faultsql.Open("sqlite3", dsn, hook)
	}
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{db, f}, nil
}

// fresh opens a store and makes its tables.
func fresh(t testing.TB, dsn string, hook faultsql.Hook) *store {
	t.Helper()
	s := reopen(t, dsn, hook)
	if err := s.f.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return s
}

func reopen(t testing.TB, dsn string, hook faultsql.Hook) *store {
	t.Helper()
	s, err := openStore(dsn, hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *store) write(ctx context.Context, c fence.Claim, key, value string, between func() error) error {
	return s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error {
		if between != nil {
			if err := between(); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO data (k, v) VALUES (?, ?)", key, value)
		return err
	})
}

func (s *store) read(ctx context.Context, key string) (v string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT v FROM data WHERE k = ? ORDER BY id DESC LIMIT 1", key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}

// count is how often the key was written.
func (s *store) count(t testing.TB, key string) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(context.Background(), "SELECT count(*) FROM data WHERE k = ?", key).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *store) suite() fencetest.Store {
	return fencetest.Store{
		Fence: s.f, Row: s.f.Row, Bar: s.f.Bar, Prune: s.f.Prune,
		Write: s.write, Read: s.read,
		Remove: func(ctx context.Context) error {
			_, err := s.db.ExecContext(ctx, "DELETE FROM data")
			return err
		},
	}
}

func grant(token fence.Token, nonce string) fence.Grant {
	return fence.Grant{Token: token, Nonce: nonce}
}

func raise(t testing.TB, s *store, name string, g fence.Grant) fence.Claim {
	t.Helper()
	c, err := s.f.Raise(t.Context(), name, g)
	if err != nil {
		t.Fatal(err)
	}
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
