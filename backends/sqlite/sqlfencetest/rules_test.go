package sqlfencetest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

func contains(err error, word string) bool { return err != nil && strings.Contains(err.Error(), word) }

func TestBadSettingsAreAllNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := sqlfence.New(nil, sqlfence.Options{Table: "x; DROP TABLE data", Settle: -1})
	for _, word := range []string{"nil", "Dialect(0)", "DROP TABLE", "settle"} {
		if !contains(err, word) {
			t.Errorf("the error does not name %q: %v", word, err)
		}
	}
	db := &sql.DB{}
	for _, name := range []string{"1a", "a b", "a.b", "é", strings.Repeat("a", 49), `a"b`} {
		if _, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite, Table: name}); err == nil {
			t.Errorf("table name %q was accepted", name)
		}
	}
}

func TestAMissingTableIsNamedWithItsRemedy(t *testing.T) {
	t.Parallel()
	s := reopen(t, modes[0].dsn(t), nil)
	_, raised := s.f.Raise(t.Context(), job, grant(7, "a"))
	c := fence.Claim{Name: job, Grant: grant(7, "a")}
	_, row := s.f.Row(t.Context(), job)
	var claims error
	for _, err := range s.f.Claims(t.Context()) {
		claims = err
	}
	for call, err := range map[string]error{"raise": raised, "row": row, "claims": claims,
		"check": s.f.Check(t.Context(), c), "write": s.write(t.Context(), c, "k", "v", nil)} {
		if !contains(err, "run Migrate") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dsn := m.dsn(t)
			var wg sync.WaitGroup
			for range 6 {
				s := reopen(t, dsn, nil)
				wg.Go(func() {
					for range 3 {
						if err := s.f.Migrate(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			raise(t, reopen(t, dsn, nil), job, grant(7, "a"))
		})
	}
}

func TestMigrateSQLMakesTheSameTables(t *testing.T) {
	t.Parallel()
	s := reopen(t, modes[0].dsn(t), nil)
	for range 2 {
		for _, q := range s.f.MigrateSQL() {
			if _, err := s.db.Exec(q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
	}
	c := raise(t, s, job, grant(7, "a"))
	must(t, s.f.Migrate(t.Context()))
	must(t, s.f.Check(t.Context(), c))
}

func TestTablesOfANewerVersionAreRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	if _, err := s.db.Exec("UPDATE stint_fence_meta SET v = 99 WHERE k = 'version'"); err != nil {
		t.Fatal(err)
	}
	if err := s.f.Migrate(t.Context()); !contains(err, "version 99") || !contains(err, "newer") {
		t.Fatalf("Migrate says %v", err)
	}
}

func TestClaimsAreReadFromTheSparseIndex(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	rows, err := s.db.Query("EXPLAIN QUERY PLAN "+s.f.ClaimsSQL(), "", 10)
	must(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	must(t, rows.Err())
	if all := strings.Join(plan, "; "); !strings.Contains(all, "INDEX stint_fence_running") || strings.Contains(all, "TEMP B-TREE") {
		t.Fatalf("the plan is %s", all)
	}
}

func TestClaimsOfManyPages(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	s.db.SetMaxOpenConns(1) // a listing that held its connection would hang
	_, err := s.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
		INSERT INTO stint_fence (name, fence, nonce, owner, state) SELECT printf('job%04d', i), i, 'n', i, 'RUNNING' FROM n`)
	must(t, err)
	n := 0
	for r, err := range s.f.Claims(t.Context()) {
		must(t, err)
		n++
		if want := fmt.Sprintf("job%04d", n); r.Name != want {
			t.Fatalf("row %d is %q, want %q", n, r.Name, want)
		}
		must(t, s.f.Requeue(t.Context(), r))
	}
	if n != 700 {
		t.Fatalf("%d rows were listed, want 700", n)
	}
}

func TestAdmitSQLChangesExactlyOneRowOfTheHolder(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[1].dsn(t), nil)
	a := raise(t, s, job, grant(7, "a"))
	admit := func(c fence.Claim) (n int64) {
		tx, err := s.db.BeginTx(t.Context(), nil)
		must(t, err)
		defer tx.Rollback()
		q, args := s.f.AdmitSQL(c)
		res, err := tx.ExecContext(t.Context(), q, args...)
		must(t, err)
		if n, err = res.RowsAffected(); err == nil && n == 1 {
			must(t, tx.Commit())
		}
		return n
	}
	for range 3 {
		if n := admit(a); n != 1 {
			t.Fatalf("the holder changed %d rows", n)
		}
	}
	must(t, s.write(t.Context(), a, "k", "v", nil)) // its count was left alone
	b := raise(t, s, job, grant(12, "b"))
	for _, c := range []fence.Claim{a, {Name: job, Grant: grant(12, "c")}, {Name: job, Grant: grant(13, "d")}, {Name: "other", Grant: b.Grant}} {
		if n := admit(c); n != 0 {
			t.Fatalf("%v changed %d rows", c.Grant, n)
		}
	}
	if n := admit(b); n != 1 {
		t.Fatalf("the new holder changed %d rows", n)
	}
}

func TestTheLastWriteAndDoneAreOneCommit(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	a := raise(t, s, job, grant(7, "a"))
	last := func(c fence.Claim, result error) error {
		return s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
			if _, err := tx.Exec("INSERT INTO data (k, v) VALUES ('last', 'v')"); err != nil {
				return err
			}
			if err := s.f.FinishTx(t.Context(), tx, c); err != nil {
				return err
			}
			return result
		})
	}
	wants(t, last(a, errAbandon), errAbandon)
	if r, _ := s.f.Row(t.Context(), job); r.State != fence.Running || s.count(t, "last") != 0 {
		t.Fatalf("abandoned, the row is %+v", r)
	}
	must(t, last(a, nil))
	if r, _ := s.f.Row(t.Context(), job); r.State != fence.Done || s.count(t, "last") != 1 {
		t.Fatalf("committed, the row is %+v", r)
	}
	raise(t, s, job, grant(8, "b"))
	wants(t, last(a, nil), fence.ErrStale)
}

func TestAReadOnlyTransactionIsRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	c := raise(t, s, job, grant(7, "a"))
	err := s.f.InTx(t.Context(), c, &sql.TxOptions{ReadOnly: true}, func(*sql.Tx) error { t.Error("it ran"); return nil })
	if !contains(err, "ReadOnly") {
		t.Fatal(err)
	}
}

func TestAWriterThatWaitsForTheLockGoesOnWhenItIsFree(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dsn := m.dsn(t)
			s, other := fresh(t, dsn, nil), reopen(t, dsn, nil)
			c := raise(t, s, job, grant(7, "a"))
			tx, err := other.db.Begin()
			must(t, err)
			_, err = tx.Exec("INSERT INTO data (k, v) VALUES ('other', 'v')")
			must(t, err)
			_ = busy(t, func(ctx context.Context) error { return s.write(ctx, c, "k", "early", nil) })
			_ = busy(t, func(ctx context.Context) error { return s.f.Finish(ctx, c) })
			done := make(chan error)
			go func() { done <- s.write(t.Context(), c, "k", "v", nil) }()
			must(t, tx.Commit())
			must(t, <-done)
			if n := s.count(t, "k"); n != 1 {
				t.Fatalf("written %d times", n)
			}
		})
	}
}

func TestAContextEndsTheDriversOwnWaiting(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"immediate", "deferred"} {
		dsn := "file:" + filepath.Join(t.TempDir(), "store.db") + "?_pragma=busy_timeout(600000)&_pragma=journal_mode(wal)&_txlock=" + lock
		s, other := fresh(t, dsn, nil), reopen(t, dsn, nil)
		c := raise(t, s, job, grant(7, "a"))
		tx, err := other.db.Begin()
		must(t, err)
		_, err = tx.Exec("INSERT INTO data (k, v) VALUES ('other', 'v')")
		must(t, err)
		_ = busy(t, func(ctx context.Context) error { return s.write(ctx, c, "k", "v", nil) })
		_ = busy(t, func(ctx context.Context) error {
			_, err := s.f.Raise(ctx, job, grant(8, "b"))
			return err
		})
		must(t, tx.Rollback())
		must(t, s.write(t.Context(), c, "k", "v", nil))
	}
}

func TestABrokenFileIsNamedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	must(t, os.WriteFile(path, []byte(strings.Repeat("this is no database ", 300)), 0o600))
	s := reopen(t, "file:"+path+"?_pragma=busy_timeout(20)", nil)
	if err := s.f.Migrate(t.Context()); !contains(err, "nothing was written") || !contains(err, "not a database") {
		t.Errorf("corrupt: %v", err)
	}
	good := filepath.Join(dir, "good.db")
	rw := fresh(t, "file:"+good+"?_pragma=busy_timeout(20)", nil)
	c := raise(t, rw, job, grant(7, "a"))
	ro := reopen(t, "file:"+good+"?mode=ro&_pragma=busy_timeout(20)", nil)
	if err := ro.write(t.Context(), c, "k", "v", nil); !contains(err, "nothing was written") || !contains(err, "readonly") {
		t.Errorf("read-only: %v", err)
	}
	must(t, ro.f.Check(t.Context(), c))
	must(t, rw.write(t.Context(), c, "k", "v", nil))
	full := reopen(t, "file:"+good+"?_pragma=busy_timeout(20)&_pragma=max_page_count(1)", nil)
	err := full.write(t.Context(), c, "k", strings.Repeat("v", 1<<16), nil)
	if !contains(err, "full") {
		t.Errorf("full: %v", err)
	}
	if n := rw.count(t, "k"); n != 1 {
		t.Errorf("written %d times", n)
	}
}
