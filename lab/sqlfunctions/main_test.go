package sqlfunctions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqlservers.Closing(m)) }

const job = "billing"

// kinds runs a test on both databases.
func kinds(t *testing.T, run func(t *testing.T, s *store)) {
	for name, server := range map[string]func(sqlservers.TB) *sqlservers.Server{"PostgreSQL": sqlservers.PostgreSQL, "MariaDB": sqlservers.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, fresh(t, server(t).Database(t, sqlservers.Options{})))
		})
	}
}

// store is a fence, and beside it a table of invoices.
type store struct {
	at      *sqlservers.Database
	dialect sqlfence.Dialect
	db      *sql.DB
	f       *sqlfence.Fence
}

func fresh(t *testing.T, at *sqlservers.Database) *store {
	t.Helper()
	s := with(t, at, at.DSN(), sqlfence.Options{LockTimeout: time.Second})
	must(t, s.f.Migrate(t.Context()))
	s.exec(t, "CREATE TABLE invoices (chunk INT NOT NULL, amount INT NOT NULL)")
	return s
}

// with opens a database with further settings.
func with(t *testing.T, at *sqlservers.Database, dsn string, o sqlfence.Options) *store {
	t.Helper()
	db, err := sql.Open(at.Driver(), dsn)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	if o.Dialect = sqlfence.PostgreSQL; at.Kind == sqlnode.MariaDB {
		o.Dialect = sqlfence.MariaDB
	}
	f, err := sqlfence.New(db, o)
	must(t, err)
	return &store{at, o.Dialect, db, f}
}

func (s *store) postgres() bool { return s.dialect == sqlfence.PostgreSQL }

func (s *store) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := s.db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func (s *store) count(t *testing.T) (n int) {
	t.Helper()
	must(t, s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM invoices").Scan(&n))
	return n
}

func (s *store) raise(t *testing.T, g fence.Grant) fence.Claim {
	t.Helper()
	c, err := s.f.Raise(t.Context(), job, g)
	must(t, err)
	return c
}

// call is an SQL function of the fence as a statement: of PostgreSQL a function,
// of MariaDB a procedure.
func (s *store) call(function string, args ...string) string {
	for i, a := range args {
		args[i] = "'" + strings.ReplaceAll(a, "'", "''") + "'"
	}
	verb := "CALL "
	if s.postgres() {
		verb = "SELECT "
	}
	return verb + function + "(" + strings.Join(args, ", ") + ")"
}

// inTx runs statements in one transaction, up to the first error.
func (s *store) inTx(t *testing.T, db *sql.DB, statements ...string) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback()
	for _, q := range statements {
		if _, err := tx.ExecContext(t.Context(), q); err != nil {
			return err
		}
	}
	return tx.Commit()
}

const insert = "INSERT INTO invoices (chunk, amount) VALUES (1, 100)"

func grant(token fence.Token, nonce string) fence.Grant {
	return fence.Grant{Token: token, Nonce: nonce}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want one that matches %q", err, fmt.Sprint(target))
	}
}

// refused wants an error with one of the fence's own states.
func refused(t *testing.T, err error, state string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), state) {
		t.Fatalf("error is %v, want SQLSTATE %s", err, state)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within 30 s: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
