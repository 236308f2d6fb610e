package sqlfunctions

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// jobs is a table of the user's own, with the fence's columns in it.
func jobs(t *testing.T, s *store) *store {
	t.Helper()
	key := "VARCHAR(200) COLLATE utf8mb4_nopad_bin"
	if s.postgres() {
		key = "text"
	}
	s.exec(t, "CREATE TABLE jobs (job_id "+key+" PRIMARY KEY, name VARCHAR(100) NOT NULL, state VARCHAR(10) NOT NULL)",
		"INSERT INTO jobs VALUES ('billing', 'the bills', 'due'), ('mails', 'the mails', 'due')")
	own := with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "jobs", Own: &sqlfence.Own{Key: "job_id", Prefix: "stint_"}})
	for range 2 {
		must(t, own.f.Migrate(t.Context()))
	}
	return own
}

func TestATableOfTheUsersOwnCarriesTheFence(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		own := jobs(t, s)
		a := own.raise(t, grant(7, "a"))
		if a.Previous.Fence != 0 || a.Previous.Name != job {
			t.Errorf("previous is %+v", a.Previous)
		}
		must(t, own.f.InTx(t.Context(), a, nil, func(tx *sql.Tx) error {
			_, err := tx.Exec("UPDATE jobs SET state = 'begun' WHERE job_id = 'billing'")
			return err
		}))
		var claimed []string
		for r, err := range own.f.Claims(t.Context()) {
			must(t, err)
			claimed = append(claimed, r.Name)
		}
		if len(claimed) != 1 || claimed[0] != job {
			t.Errorf("claimed are %q", claimed)
		}
		b := own.raise(t, grant(12, "b"))
		if b.Previous.Fence != 7 || b.Previous.Seq != 1 {
			t.Errorf("previous is %+v", b.Previous)
		}
		wants(t, own.f.InTx(t.Context(), a, nil, func(*sql.Tx) error { t.Error("it ran"); return nil }), fence.ErrStale)
		must(t, own.f.Finish(t.Context(), b))
		must(t, own.f.Requeue(t.Context(), own.row(t, own.raise(t, grant(13, "c")))))
		must(t, own.f.Bar(t.Context(), "mails", 40))
		must(t, own.inTx(t, own.db, s.call("jobs_raise", "mails", "41.m"), s.call("jobs_admit", "mails", "41.m"), s.call("jobs_finish", "mails", "41.m")))
		refused(t, own.inTx(t, own.db, s.call("jobs_admit", "mails", "40.x")), "SF001")
		own.protect(t, "invoices", job, "")
		refused(t, own.inTx(t, own.db, insert), "SF005")
		var name, state string
		must(t, own.db.QueryRow("SELECT name, state FROM jobs WHERE job_id = 'billing'").Scan(&name, &state))
		if name != "the bills" || state != "begun" {
			t.Errorf("the user's columns are %q, %q", name, state)
		}
	})
}

func (s *store) row(t *testing.T, c fence.Claim) fence.Row {
	t.Helper()
	r, err := s.f.Row(t.Context(), c.Name)
	must(t, err)
	return r
}

func TestAJobWithoutARowIsNotMadeInTheUsersTable(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		own := jobs(t, s)
		_, err := own.f.Raise(t.Context(), "unheard of", grant(7, "a"))
		wants(t, err, fence.ErrNoFence)
		wants(t, own.f.Bar(t.Context(), "unheard of", 7), fence.ErrNoFence)
		refused(t, own.inTx(t, own.db, s.call("jobs_raise", "unheard of", "7.a")), "SF003")
		_, err = own.f.Row(t.Context(), job) // it is there, but nobody has raised it
		wants(t, err, fence.ErrNoFence)
		if _, err := own.f.Prune(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "yours to delete") {
			t.Errorf("prune says %v", err)
		}
	})
}

// The lost fence of a deleted job is the oldest way in for a zombie.
func TestADeletedJobThatIsMadeAnewDoesNotForgetItsFence(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		own := jobs(t, s)
		old := own.raise(t, grant(7, "a"))
		next := own.raise(t, grant(12, "b"))
		must(t, own.f.InTx(t.Context(), next, nil, func(tx *sql.Tx) error {
			_, err := tx.Exec("DELETE FROM jobs WHERE job_id = 'billing'")
			return err
		}))
		must(t, own.f.Bar(t.Context(), "mails", 20))
		own.exec(t, "DELETE FROM jobs WHERE job_id = 'mails'",
			"INSERT INTO jobs (job_id, name, state) VALUES ('billing', 'the bills', 'due'), ('mails', 'the mails', 'due')")
		wants(t, own.f.InTx(t.Context(), old, nil, func(*sql.Tx) error { t.Error("it ran"); return nil }), fence.ErrNoFence)
		_, err := own.f.Raise(t.Context(), job, grant(20, "a"))
		wants(t, err, fence.ErrStale)
		refused(t, own.inTx(t, own.db, s.call("jobs_raise", job, "20.a")), "SF001")
		if c := own.raise(t, grant(21, "c")); c.Previous.Seq < 2 {
			t.Errorf("the count came back to %d", c.Previous.Seq)
		}
	})
}
