package sqlfunctions

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stint-dev/stint/fence"
)

func (s *store) protect(t *testing.T, table, name, column string) {
	t.Helper()
	all, err := s.f.ProtectSQL(table, name, column)
	must(t, err)
	s.exec(t, all...)
	s.exec(t, all...) // repeating them is harmless
}

func TestAProtectedTableRefusesWhatWasNotAdmitted(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.exec(t, insert)
		s.protect(t, "invoices", job, "")
		a := s.raise(t, grant(7, "a"))
		for _, q := range []string{insert, "UPDATE invoices SET amount = 0", "DELETE FROM invoices"} {
			refused(t, s.inTx(t, s.db, q), "SF005")
		}
		if s.postgres() {
			refused(t, s.inTx(t, s.db, "TRUNCATE invoices"), "SF005")
		}
		must(t, s.f.InTx(t.Context(), a, nil, func(tx *sql.Tx) error {
			_, err := tx.Exec(insert)
			return err
		}))
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, "7.a"), insert, "SAVEPOINT s", insert))
		must(t, s.inTx(t, s.db, "SAVEPOINT s", s.call("stint_admit", job, "7.a"), "RELEASE SAVEPOINT s", insert))
		must(t, s.inTx(t, s.db, s.call("stint_raise", job, "7.a"), insert))
		tx, err := s.db.Begin()
		must(t, err)
		defer tx.Rollback()
		q, args := s.f.AdmitSQL(a)
		_, err = tx.Exec(q, args...)
		must(t, err)
		_, err = tx.Exec(insert)
		must(t, err)
		must(t, tx.Commit())
		if n := s.count(t); n != 7 {
			t.Errorf("%d invoices", n)
		}
		refused(t, s.inTx(t, s.db, s.call("stint_admit", job, "7.b"), insert), "SF002")
	})
}

// On PostgreSQL it is the transaction that is admitted, on MariaDB the session,
// by a grant that is still the fence.
func TestAnAdmittedSessionIsRefusedOnceItsGrantIsNotTheFence(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.protect(t, "invoices", job, "")
		c := s.raise(t, grant(7, "a"))
		zombie, err := sql.Open(s.at.Driver(), s.at.DSN())
		must(t, err)
		defer zombie.Close()
		zombie.SetMaxOpenConns(1) // one session
		must(t, s.inTx(t, zombie, s.call("stint_admit", job, "7.a"), insert))
		if s.postgres() {
			refused(t, s.inTx(t, zombie, insert), "SF005")
		}
		must(t, s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error { _, err := tx.Exec(insert); return err }))
		s.db.SetMaxOpenConns(1)
		refused(t, s.inTx(t, s.db, insert), "SF005") // the session of an InTx that has ended
		s.raise(t, grant(12, "b"))
		refused(t, s.inTx(t, zombie, insert), "SF005")
		if n := s.count(t); n != 2 {
			t.Errorf("%d invoices", n)
		}
	})
}

func TestASweepersTransactionIsNotAHolders(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.protect(t, "invoices", job, "")
		s.raise(t, grant(7, "a"))
		refused(t, s.inTx(t, s.db, "UPDATE stint_fence SET state = 'QUEUED' WHERE name = 'billing'", insert), "SF005")
		must(t, s.f.Bar(t.Context(), job, 7))
		refused(t, s.inTx(t, s.db, "UPDATE stint_fence SET admits = admits + 1 WHERE name = 'billing'", insert), "SF005")
	})
}

func TestARowMayNameItsOwnFence(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.db.SetMaxIdleConns(-1) // each transaction in a session of its own: see the test before
		s.exec(t, "CREATE TABLE line (job VARCHAR(100), n INT)")
		s.protect(t, "line", "", "job")
		s.raise(t, grant(7, "a"))
		other, err := s.f.Raise(t.Context(), "it's \"other\"", fence.Grant{Token: 8, Nonce: "b"})
		must(t, err)
		line := "INSERT INTO line VALUES ('billing', 1)"
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, "7.a"), line))
		refused(t, s.inTx(t, s.db, s.call("stint_admit", other.Name, "8.b"), line), "SF005")
		must(t, s.inTx(t, s.db, s.call("stint_admit", other.Name, "8.b"), "INSERT INTO line VALUES ('it''s \"other\"', 1)"))
		refused(t, s.inTx(t, s.db, s.call("stint_admit", other.Name, "8.b"), "DELETE FROM line WHERE job = 'billing'"), "SF005")
		refused(t, s.inTx(t, s.db, "INSERT INTO line VALUES (NULL, 1)"), "SF005")
		// A row goes from one fence to another by the grants of both.
		take := "UPDATE line SET job = 'it''s \"other\"' WHERE job = 'billing'"
		for _, g := range [][2]string{{other.Name, "8.b"}, {job, "7.a"}} {
			refused(t, s.inTx(t, s.db, s.call("stint_admit", g[0], g[1]), take), "SF005")
		}
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, "7.a"), s.call("stint_admit", other.Name, "8.b"), take))
	})
}

// A trigger that names no column of the table would refuse every write to it.
func TestATriggerOfAColumnThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		for _, column := range []string{"jobb", "xmin"} {
			all, err := s.f.ProtectSQL("invoices", "", column)
			must(t, err)
			if err := s.inTx(t, s.db, all...); err == nil || !strings.Contains(err.Error(), column) {
				t.Errorf("column %s: %v", column, err)
			}
		}
		s.exec(t, insert) // no trigger is left
	})
}

func TestATriggerIsMadeForPlainNamesOnly(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		for _, c := range [][3]string{{"a b", job, ""}, {"invoices", "", ""}, {"invoices", job, "chunk"}, {"invoices", "", "a b"}, {"x; DROP TABLE invoices", job, ""}, {"invoices", "a\nb", ""}} {
			if _, err := s.f.ProtectSQL(c[0], c[1], c[2]); err == nil {
				t.Errorf("%q was accepted", c)
			}
		}
	})
}
