// Package idempotenttest tests fence/idempotent on SQLite. It lies in this module
// so that the root module needs no driver.
package idempotenttest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/idempotent"
	"github.com/stint-dev/stint/fence/idempotent/storetest"
	"github.com/stint-dev/stint/fence/sqlfence"
)

const (
	folderEnv = "STINT_TEST_EFFECTS" // the child's folder
	momentEnv = "STINT_TEST_MOMENT"  // at which it gets
	signalEnv = "STINT_TEST_SIGNAL"  // this signal, by its own hand
	keysEnv   = "STINT_TEST_KEYS"    // "true": the remote side takes keys
	key       = "invoice/4711"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(folderEnv); folder != "" {
		child(folder)
		return
	}
	goleak.VerifyTestMain(m)
}

// site is the database, with the fence and the records.
type site struct {
	db *sql.DB
	f  *sqlfence.Fence
	s  *idempotent.SQL
}

func open(folder string) (*site, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(folder, "store.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s, err := idempotent.NewSQL(db, f, idempotent.SQLOptions{Dialect: sqlfence.SQLite})
	if err == nil {
		err = errors.Join(f.Migrate(context.Background()), s.Migrate(context.Background()))
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &site{db, f, s}, nil
}

func opened(t *testing.T, folder string) *site {
	t.Helper()
	s, err := open(folder)
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

func TestSQLiteKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		s := opened(t, t.TempDir())
		return storetest.Subject{Store: s.s, Fence: s.f}
	})
}

func TestMigrateMayBeRepeated(t *testing.T) {
	s := opened(t, t.TempDir())
	for range 2 {
		if err := s.s.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestRecordsAreNotCountedAmongTheCallersTransactions(t *testing.T) {
	s := opened(t, t.TempDir())
	claim, err := s.f.Raise(t.Context(), "payments", fence.Grant{Token: 7, Nonce: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.f.InTx(t.Context(), claim, nil, func(*sql.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
		if _, err := idempotent.Do(t.Context(), s.s, claim, idempotent.Effect{Key: key, Timeout: time.Minute,
			Call: func(context.Context, string) (string, error) { return "receipt", nil }}); err != nil {
			t.Error(err)
		}
	}
}
