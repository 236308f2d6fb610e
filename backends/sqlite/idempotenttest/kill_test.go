// Package idempotenttest tests fence/idempotent on SQLite. It lies in this module
// so that the root module needs no driver.
package idempotenttest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
	momentEnv = "STINT_TEST_MOMENT"  // at which it kills itself
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

// The remote side is a file of another process's making: it outlives the killed
// one, and takes keys or not.

func pay(folder, key string) error {
	f, err := os.OpenFile(filepath.Join(folder, "bank"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, key)
	return errors.Join(err, f.Close())
}

func payments(folder string) int {
	text, err := os.ReadFile(filepath.Join(folder, "bank"))
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("\n"))
}

// killer is a store that kills its own process at the nth moment.
type killer struct {
	idempotent.Store
	left int
}

func (k *killer) moment() {
	if k.left--; k.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (k *killer) Get(ctx context.Context, key string) (idempotent.Record, error) {
	k.moment()
	defer k.moment()
	return k.Store.Get(ctx, key)
}

func (k *killer) Set(ctx context.Context, c fence.Claim, key string, was, now idempotent.Record) error {
	k.moment()
	defer k.moment()
	return k.Store.Set(ctx, c, key, was, now)
}

func child(folder string) {
	n, err := strconv.Atoi(os.Getenv(momentEnv))
	s, failed := open(folder)
	if err = errors.Join(err, failed); err == nil {
		k := &killer{s.s, n}
		var claim fence.Claim
		if claim, err = s.f.Raise(context.Background(), "payments", fence.Grant{Token: 7, Nonce: "a"}); err == nil {
			_, err = idempotent.Do(context.Background(), k, claim, idempotent.Effect{Key: key, Timeout: time.Minute, Call: func(_ context.Context, key string) (string, error) {
				k.moment()
				defer k.moment()
				return "receipt", pay(folder, key)
			}})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestAProcessKilledAtAnyStepNeverPaysTwice kills a real process before and after
// each of its requests; then its successor comes.
func TestAProcessKilledAtAnyStepNeverPaysTwice(t *testing.T) {
	unknown := 0
	for n, killed := 1, true; killed; n++ {
		folder := t.TempDir()
		opened(t, folder)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), folderEnv+"="+folder, momentEnv+"="+strconv.Itoa(n))
		text, err := cmd.CombinedOutput()
		killed = err != nil && strings.Contains(err.Error(), "killed")
		if err != nil && !killed {
			t.Fatalf("moment %d: %v\n%s", n, err, text)
		}
		if !killed && n < 9 {
			t.Fatalf("only %d moments", n-1)
		}
		s := opened(t, folder)
		claim, err := s.f.Raise(t.Context(), "payments", fence.Grant{Token: 12, Nonce: "b"})
		if err != nil {
			t.Fatal(err)
		}
		before := payments(folder)
		out, err := idempotent.Do(t.Context(), s.s, claim, idempotent.Effect{Key: key, Timeout: time.Minute,
			Call: func(_ context.Context, key string) (string, error) { return "receipt", pay(folder, key) }})
		switch paid := payments(folder); {
		case paid == 1 && out.State == idempotent.Done && err == nil:
		case paid == before && out.State == idempotent.Unknown && errors.Is(err, fence.ErrUnknown):
			unknown++
			if all, err := s.s.List(t.Context()); err != nil || len(all) != 1 || all[0].Key != key || all[0].State != idempotent.Unknown {
				t.Errorf("moment %d: a person is shown %v, %v", n, all, err)
			}
		default:
			t.Errorf("moment %d: paid %d times, then %d; %v, %v", n, before, paid, out, err)
		}
	}
	if unknown == 0 {
		t.Error("no kill left the outcome unknown: it was not between the two records")
	}
}
