package sqlfunctions

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

func TestAFunctionThatSwallowsAnErrorWritesNothingOnPostgreSQL(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
	c := s.raise(t, grant(7, "a"))
	{
		err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
			_, err := tx.Exec(insert)
			must(t, err)
			if _, err := tx.Exec("SELECT 1/0"); err == nil {
				t.Error("no error")
			}
			if _, err := tx.Exec(insert); err == nil {
				t.Error("PostgreSQL went on")
			}
			return nil
		})
		wants(t, err, sqlfence.ErrRolledBack)
	}
	if s.count(t) != 0 {
		t.Error("it was written")
	}
	must(t, s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error { _, err := tx.Exec(insert); return err }))
}

// database/sql does not see a COMMIT or ROLLBACK that is sent as a statement.
func TestAStatementThatEndsTheTransactionIsNotTakenForInTxsOwn(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		c := s.raise(t, grant(7, "a"))
		end := func(statement string) error {
			return s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
				_, err := tx.Exec(insert)
				must(t, err)
				_, err = tx.Exec(statement)
				must(t, err)
				_, err = tx.Exec(insert)
				return err
			})
		}
		err := end("COMMIT")
		if s.postgres() {
			wants(t, err, sqlfence.ErrEnded)
		} else {
			wants(t, err, sqlfence.ErrRolledBack)
		}
		if n := s.count(t); n != 2 {
			t.Fatalf("%d invoices", n)
		}
		c = s.raise(t, grant(8, "b"))
		wants(t, end("ROLLBACK"), sqlfence.ErrRolledBack)
		if n := s.count(t); n != 3 { // the one after it stands, and the error says so
			t.Fatalf("%d invoices", n)
		}
		wants(t, s.f.Finish(t.Context(), c), sqlfence.ErrRolledBack)
		must(t, s.f.Finish(t.Context(), s.raise(t, grant(8, "b"))))
	})
}

// MariaDB undoes a whole transaction for a deadlock, and goes on without one.
func TestADeadlockThatTheFunctionSwallowsIsFoundOutBeforeCommit(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.MariaDB(t).Database(t, sqlservers.Options{}))
	s.exec(t, "CREATE TABLE two (id INT PRIMARY KEY, n INT)", "INSERT INTO two VALUES (1, 0), (2, 0)")
	c := s.raise(t, grant(7, "a"))
	other, err := s.db.Begin()
	must(t, err)
	defer other.Rollback()
	for i := range 50 { // the heavier transaction survives
		_, err = other.Exec("INSERT INTO two VALUES (?, 1)", i+10)
		must(t, err)
	}
	_, err = other.Exec("UPDATE two SET n = n + 1 WHERE id = 1")
	must(t, err)
	var deadlock error
	err = s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE two SET n = n + 1 WHERE id = 2")
		must(t, err)
		waits := make(chan error, 1)
		go func() { _, err := other.Exec("UPDATE two SET n = n + 1 WHERE id = 2"); waits <- err }()
		_, deadlock = tx.Exec("UPDATE two SET n = n + 1 WHERE id = 1")
		must(t, <-waits)
		return nil
	})
	if !s.f.Retryable(deadlock) {
		t.Errorf("the deadlock is %v", deadlock)
	}
	wants(t, err, sqlfence.ErrRolledBack)
	must(t, other.Commit())
}

// DDL commits on MariaDB, without a word.
func TestDDLInsideInTxIsFoundOutOnMariaDB(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.MariaDB(t).Database(t, sqlservers.Options{}))
	c := s.raise(t, grant(7, "a"))
	wants(t, s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TABLE surprise (id INT)")
		return err
	}), sqlfence.ErrRolledBack)
}

func TestASerializationFailureBeforeTheFunctionIsRepeatedAndLaterReturned(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{Isolation: "serializable"}))
	s.exec(t, insert)
	c := s.raise(t, grant(7, "a"))
	// The admission waits for the row, which then changes: at this level it fails.
	tx, err := s.db.Begin()
	must(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("UPDATE stint_fence SET admits = admits + 1 WHERE name = 'billing'")
	must(t, err)
	done := make(chan error, 1)
	runs := 0
	go func() {
		done <- s.f.InTx(context.Background(), c, nil, func(tx *sql.Tx) error { runs++; _, err := tx.Exec(insert); return err })
	}()
	until(t, "InTx waits", func() bool {
		return s.at.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = $1", s.at.Name) > 0
	})
	must(t, tx.Commit())
	must(t, <-done)
	if runs != 1 || s.count(t) != 2 {
		t.Errorf("it ran %d times, %d invoices", runs, s.count(t))
	}
	// Inside the function it is the caller's to repeat.
	err = s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
		var n int
		must(t, tx.QueryRow("SELECT count(*) FROM invoices").Scan(&n))
		s.exec(t, "UPDATE invoices SET amount = amount + 1")
		_, err := tx.Exec("UPDATE invoices SET amount = 0")
		return err
	})
	if !s.f.Retryable(err) {
		t.Errorf("the error is %v", err)
	}
	if s.f.Retryable(s.f.Check(t.Context(), fence.Claim{Name: job, Grant: grant(6, "z")})) {
		t.Error("a refusal is called retryable")
	}
}
