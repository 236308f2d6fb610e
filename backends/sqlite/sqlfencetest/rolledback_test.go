package sqlfencetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// causes are the ways in which SQLite rolls back a whole transaction by itself.
// Each statement fails and does that.
var causes = map[string]func(tx *sql.Tx) error{
	"insert or rollback": func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT OR ROLLBACK INTO data (id, k, v) VALUES (1, 'again', 'v')")
		return err
	},
	"column on conflict rollback": func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO seen VALUES ('m')")
		return err
	},
	"trigger raises rollback": func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO refused VALUES (1)")
		return err
	},
	"interrupted write": func(tx *sql.Tx) error {
		for limit := 5 * time.Millisecond; ; limit *= 2 {
			err := endless(tx, limit)
			if _, inside := tx.Exec("BEGIN"); inside == nil { // no transaction was open
				_, inside = tx.Exec("ROLLBACK")
				return errors.Join(err, inside)
			}
			// The context had ended before the statement began.
		}
	},
	"full disk": func(tx *sql.Tx) error {
		var limit int
		if err := tx.QueryRow("PRAGMA max_page_count = 1").Scan(&limit); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO data (k, v) VALUES ('big', zeroblob(1000000))")
		lifted := tx.QueryRow("PRAGMA max_page_count = 1000000").Scan(&limit)
		if lifted != nil {
			return lifted
		}
		return err
	},
	"a statement": func(tx *sql.Tx) error {
		if _, err := tx.Exec("ROLLBACK"); err != nil {
			return err
		}
		return errAbandon
	},
}

// endless is a write that only its context ends.
func endless(tx *sql.Tx, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := tx.ExecContext(ctx, "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO data (k, v) SELECT 'long', x FROM n WHERE x < 0")
	return err
}

// hideHooks is a driver without a commit hook.
type hideHooks struct{ driver.Connector }

type bareConn struct{ driver.Conn }

func (h hideHooks) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := h.Connector.Connect(ctx)
	return bareConn{c}, err
}

func (c bareConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c bareConn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, q)
}

// bare opens the store as a driver without a commit hook would.
func bare(t testing.TB, dsn string, hook faultsql.Hook) *store {
	t.Helper()
	plain, err := sql.Open("sqlite3", dsn)
	must(t, err)
	t.Cleanup(func() { must(t, plain.Close()) })
	c, err := plain.Driver().(driver.DriverContext).OpenConnector(dsn)
	must(t, err)
	db := sql.OpenDB(faultsql.Wrap(hideHooks{c}, hook))
	t.Cleanup(func() { must(t, db.Close()) })
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite})
	must(t, err)
	return &store{db, f}
}

func noFault(faultsql.Request, faultsql.When) error { return nil }

// causesStore has what the causes need.
func causesStore(t testing.TB, dsn string) *store {
	t.Helper()
	s := fresh(t, dsn, nil)
	for _, q := range []string{
		"INSERT INTO data (id, k, v) VALUES (1, 'first', 'v')",
		"CREATE TABLE seen (m TEXT PRIMARY KEY ON CONFLICT ROLLBACK)",
		"INSERT INTO seen VALUES ('m')",
		"CREATE TABLE refused (x)",
		"CREATE TRIGGER refuse BEFORE INSERT ON refused BEGIN SELECT RAISE(ROLLBACK, 'refused'); END",
	} {
		_, err := s.db.Exec(q)
		must(t, err)
	}
	return s
}

func insert(tx *sql.Tx, key string) error {
	_, err := tx.Exec("INSERT INTO data (k, v) VALUES (?, 'v')", key)
	return err
}

// tolerant bills, goes on after the cause, lets a rival raise where it can, and
// bills again.
func tolerant(t *testing.T, clean *store, cause func(*sql.Tx) error, result error) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		must(t, insert(tx, "before"))
		if err := cause(tx); err == nil {
			t.Error("the statement did not fail")
		}
		raise(t, clean, job, grant(12, "rival")) // no transaction holds the lock
		_ = insert(tx, "after")
		return result
	}
}

func TestWhatSQLiteRolledBackItselfIsNeverCommittedInParts(t *testing.T) {
	t.Parallel()
	for name, cause := range causes {
		for _, m := range modes {
			t.Run(fmt.Sprintf("%s, %s", name, m.name), func(t *testing.T) {
				dsn := m.dsn(t)
				clean := causesStore(t, dsn)
				for how, s := range map[string]*store{"plain": reopen(t, dsn, nil), "wrapped": reopen(t, dsn, noFault)} {
					for _, result := range []error{nil, errAbandon} {
						_, err := clean.db.Exec("DELETE FROM stint_fence")
						must(t, err)
						c := raise(t, s, job, grant(7, "a"))
						err = s.f.InTx(t.Context(), c, nil, tolerant(t, clean, cause, result))
						wants(t, err, sqlfence.ErrRolledBack)
						if result != nil {
							wants(t, err, result)
						}
						if n := clean.count(t, "before") + clean.count(t, "after"); n != 0 {
							t.Fatalf("%s: %d rows were written, and %v", how, n, err)
						}
						wants(t, s.write(t.Context(), c, "late", "v", nil), fence.ErrStale)
					}
				}
			})
		}
	}
}

// A function that stops at the first error gets it back as it is.
func TestTheFirstErrorReturnedIsTheErrorOfInTx(t *testing.T) {
	t.Parallel()
	for name, cause := range causes {
		t.Run(name, func(t *testing.T) {
			s := causesStore(t, modes[0].dsn(t))
			c := raise(t, s, job, grant(7, "a"))
			var first error
			err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
				must(t, insert(tx, "k"))
				first = cause(tx)
				return first
			})
			if err == nil || err != first {
				t.Fatalf("the error is %v, want %v", err, first)
			}
			must(t, s.write(t.Context(), c, "k", "v", nil))
			if n := s.count(t, "k"); n != 1 {
				t.Fatalf("written %d times", n)
			}
		})
	}
}

func TestATransactionThatSQLiteRolledBackMayBeRepeated(t *testing.T) {
	t.Parallel()
	for name, cause := range causes {
		t.Run(name, func(t *testing.T) {
			s := causesStore(t, modes[0].dsn(t))
			c := raise(t, s, job, grant(7, "a"))
			err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
				must(t, insert(tx, "k"))
				_ = cause(tx)
				if err := insert(tx, "k"); err == nil {
					t.Error("a write without a transaction was accepted")
				}
				return nil
			})
			wants(t, err, sqlfence.ErrRolledBack)
			must(t, s.write(t.Context(), c, "k", "v", nil))
			if n := s.count(t, "k"); n != 1 {
				t.Fatalf("written %d times", n)
			}
		})
	}
}

// The hook is InTx's own: nobody who gets the connection next meets it.
func TestNoCommitHookStaysBehind(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	s.db.SetMaxOpenConns(1)
	c, stale := raise(t, s, job, grant(7, "a")), raise(t, s, "other", grant(7, "a"))
	raise(t, s, "other", grant(8, "b"))
	for name, end := range map[string]func(){
		"committed": func() { must(t, s.write(t.Context(), c, "k", "v", nil)) },
		"abandoned": func() { wants(t, s.write(t.Context(), c, "k", "v", func() error { return errAbandon }), errAbandon) },
		"refused":   func() { wants(t, s.write(t.Context(), stale, "k", "v", nil), fence.ErrStale) },
		"panicked": func() {
			defer func() { _ = recover() }()
			_ = s.write(t.Context(), c, "k", "v", func() error { panic("on purpose") })
		},
	} {
		end()
		if _, err := s.db.Exec("INSERT INTO data (k, v) VALUES (?, 'v')", name); err != nil || s.count(t, name) != 1 {
			t.Errorf("%s: the next write on the connection fails: %v", name, err)
		}
	}
	if n := s.count(t, "k"); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// Without a commit hook the write after the rollback cannot be stopped. It is
// never called "not written", and the claim does nothing more.
func TestWithoutACommitHookWhatFollowsARollbackIsNotCalledUnwritten(t *testing.T) {
	t.Parallel()
	for name, cause := range causes {
		for _, result := range []error{nil, errAbandon} {
			t.Run(fmt.Sprintf("%s, %v", name, result), func(t *testing.T) {
				dsn := modes[0].dsn(t)
				clean := causesStore(t, dsn)
				s := bare(t, dsn, noFault)
				c := raise(t, s, job, grant(7, "a"))
				handed := fence.Claim{Name: c.Name, Grant: c.Grant}
				for _, c := range []fence.Claim{c, handed} {
					err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
						must(t, insert(tx, "before"))
						_ = cause(tx)
						return errors.Join(insert(tx, "after"), result)
					})
					wants(t, err, sqlfence.ErrRolledBack)
					if result != nil {
						wants(t, err, result)
					}
					if !contains(err, "raise again") || contains(err, "nothing was written") {
						t.Errorf("the error is %v", err)
					}
					for range 2 {
						wants(t, s.write(t.Context(), c, "repeated", "v", nil), sqlfence.ErrRolledBack)
						wants(t, s.f.Finish(t.Context(), c), sqlfence.ErrRolledBack)
						_, err := s.f.Settle(t.Context(), c)
						wants(t, err, sqlfence.ErrRolledBack)
					}
				}
				if before, after, again := clean.count(t, "before"), clean.count(t, "after"), clean.count(t, "repeated"); before != 0 || after != 2 || again != 0 {
					t.Fatalf("written: %d before, %d after, %d repeated", before, after, again)
				}
				c = raise(t, s, job, grant(7, "a"))
				must(t, s.write(t.Context(), c, "next", "v", nil))
			})
		}
	}
}
