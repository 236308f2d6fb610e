package sqlfunctions

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// held tells whether somebody has the row's lock.
func (s *store) held(t *testing.T) bool {
	t.Helper()
	tx, err := s.db.BeginTx(context.WithoutCancel(t.Context()), nil)
	must(t, err)
	defer tx.Rollback()
	var one int
	return tx.QueryRow("SELECT 1 FROM stint_fence WHERE name = 'billing' FOR UPDATE NOWAIT").Scan(&one) != nil
}

func TestAnIdleTransactionEndsWithTheTimeLeft(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		c := s.raise(t, grant(7, "a"))
		ctx := fence.WithTimeLeft(t.Context(), func() time.Duration { return 900 * time.Millisecond })
		err := s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error {
			if _, err := tx.Exec(insert); err != nil {
				return err // it was idle for too long before this already
			}
			until(t, "the server ends the idle transaction", func() bool { return !s.held(t) })
			_, err := tx.Exec(insert)
			return err
		})
		if err == nil || s.count(t) != 0 {
			t.Fatalf("%d invoices were written, %v", s.count(t), err)
		}
		// A connection that goes back to the pool has lost the bound again.
		s.db.SetMaxOpenConns(1)
		ctx = fence.WithTimeLeft(t.Context(), func() time.Duration { return 20 * time.Second })
		must(t, s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error { _, err := tx.Exec(insert); return err }))
		var bound string
		q := "SELECT @@idle_transaction_timeout"
		if s.postgres() {
			q = "SHOW idle_in_transaction_session_timeout"
		}
		must(t, s.db.QueryRow(q).Scan(&bound))
		if bound != "0" || s.count(t) != 1 {
			t.Errorf("the session is bound to %s, %d invoices", bound, s.count(t))
		}
	})
}

// hold takes the row's lock in a session, as a client does that then freezes.
func (s *store) hold(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.Exec("UPDATE stint_fence SET admits = admits + 1 WHERE name = 'billing'")
	if err == nil && !s.postgres() {
		_, err = tx.Exec("UPDATE stint_fence SET session = CONNECTION_ID() WHERE name = 'billing'")
	}
	must(t, err)
	return tx
}

func TestARaiseEndsTheSessionThatHoldsItUp(t *testing.T) {
	t.Parallel()
	for name, successor := range map[string]func(s *store) error{
		"raise": func(s *store) error { _, err := s.f.Raise(context.Background(), job, grant(12, "b")); return err },
		"bar":   func(s *store) error { return s.f.Bar(context.Background(), job, 7) },
		// A network that was cut leaves the own transaction behind.
		"its own raise again": func(s *store) error { _, err := s.f.Raise(context.Background(), job, grant(7, "a")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds(t, func(t *testing.T, s *store) {
				c := s.raise(t, grant(7, "a"))
				err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
					_, err := tx.Exec(insert)
					must(t, err)
					done := make(chan error, 1)
					go func() { done <- successor(s) }() // beside it: this one is the zombie
					must(t, <-done)
					_, err = tx.Exec(insert)
					return err
				})
				if err == nil || s.count(t) != 0 {
					t.Errorf("the zombie wrote %d invoices, %v", s.count(t), err)
				}
			})
		})
	}
}

// What psql or Python has begun with stint_admit, and then froze; the successor is a
// program that uses the functions as well, under stint run --fence.
func TestASessionThatTheFunctionsAdmittedYieldsToARaise(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		must(t, s.inTx(t, s.db, s.call("stint_raise", job, "7.a")))
		frozen, err := s.db.BeginTx(context.WithoutCancel(t.Context()), nil)
		must(t, err)
		defer frozen.Rollback()
		for _, q := range []string{s.call("stint_admit", job, "7.a"), insert} {
			_, err = frozen.Exec(q)
			must(t, err)
		}
		s.raise(t, grant(12, "b")) // as stint does, before the program starts
		must(t, s.inTx(t, s.db, s.call("stint_raise", job, "12.b")))
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, "12.b"), insert))
		if _, err = frozen.Exec(insert); err == nil {
			err = frozen.Commit()
		}
		if n := s.count(t); err == nil || n != 1 {
			t.Errorf("the frozen one says %v; %d invoices", err, n)
		}
	})
}

func TestAStaleRaiseEndsNobody(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		c := s.raise(t, grant(12, "b"))
		must(t, s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
			done := make(chan error, 2)
			go func() { _, err := s.f.Raise(t.Context(), job, grant(7, "a")); done <- err }()
			go func() { _, err := s.f.Raise(t.Context(), job, grant(12, "other")); done <- err }()
			first, second := <-done, <-done
			if errors.Is(first, fence.ErrRepeated) {
				first, second = second, first
			}
			wants(t, first, fence.ErrStale)
			wants(t, second, fence.ErrRepeated)
			_, err := tx.Exec(insert)
			return err
		}))
		if n := s.count(t); n != 1 {
			t.Errorf("%d invoices", n)
		}
	})
}

func TestASessionThatCannotBeEndedIsNamed(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.raise(t, grant(7, "a"))
		// The administrator's session is nobody else's to end.
		dsn := s.at.As(sqlnode.User, s.at.Password(), s.at.Addr(), "")
		if s.postgres() {
			dsn += "&application_name=backup"
		}
		admin := with(t, s.at, dsn, sqlfence.Options{})
		tx := s.hold(t, admin.db)
		_, err := s.f.Raise(t.Context(), job, grant(12, "b"))
		wants(t, err, sqlfence.ErrBlocked)
		words := []string{"KILL CONNECTION", "Nothing was written"}
		if s.postgres() {
			words = []string{"of user " + sqlnode.User, "application backup", "pg_terminate_backend(", "pg_signal_backend", "Nothing was written"}
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the error does not say %q: %v", w, err)
			}
		}
		// Who has no right to end anybody waits for its context, and is told.
		claim, err := fence.Resume(job, grant(7, "a"))
		must(t, err)
		until(t, "Finish names the session", func() bool { // it has a second to look
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			err := s.f.Finish(ctx, claim)
			wants(t, err, context.DeadlineExceeded)
			return errors.Is(err, sqlfence.ErrBusy) && strings.Contains(err.Error(), "It is session")
		})
		must(t, tx.Rollback())
		s.raise(t, grant(12, "b"))
	})
}

func TestAPreparedTransactionThatHoldsTheRowIsNamed(t *testing.T) {
	t.Parallel()
	server := sqlservers.Own(t, sqlnode.PostgreSQL, sqlnode.Options{Settings: []string{"max_prepared_transactions=2"}})
	s := fresh(t, server.Database(t, sqlservers.Options{}))
	s.raise(t, grant(7, "a"))
	must(t, s.inTx(t, s.db, s.call("stint_admit", job, "7.a"), "PREPARE TRANSACTION 'it''s'"))
	_, err := s.f.Raise(t.Context(), job, grant(12, "b"))
	wants(t, err, sqlfence.ErrBlocked)
	if !strings.Contains(err.Error(), "ROLLBACK PREPARED") {
		t.Errorf("the error is %v", err)
	}
	s.exec(t, "ROLLBACK PREPARED 'it''s'")
	s.raise(t, grant(12, "b"))
}

// A row that SQL by hand has made and not committed is seen by nobody.
func TestARowMadeInAnOpenTransactionIsToldOf(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		tx, err := s.db.Begin()
		must(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(s.call("stint_raise", job, "7.a"))
		must(t, err)
		_, err = s.f.Raise(t.Context(), job, grant(12, "b"))
		if s.postgres() {
			wants(t, err, sqlfence.ErrBlocked)
			must(t, tx.Rollback())
			s.raise(t, grant(12, "b"))
		} else {
			must(t, err) // MariaDB shows uncommitted rows to who asks for them
		}
	})
}

// What a standby has not confirmed must not be made visible to get past it.
func TestACommitThatWaitsForItsStandbyIsNotEnded(t *testing.T) {
	t.Parallel()
	server, waits, confirm := standby(t)
	s := fresh(t, server.Database(t, sqlservers.Options{}))
	c := s.raise(t, grant(7, "a"))
	done := make(chan error, 1)
	go func() {
		done <- s.f.InTx(context.Background(), c, nil, func(tx *sql.Tx) error {
			_, err := tx.Exec("SET LOCAL synchronous_commit = on")
			if err == nil {
				_, err = tx.Exec(insert)
			}
			return err
		})
	}()
	until(t, "COMMIT waits for its standby", waits)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // five lock timeouts
	defer cancel()
	_, err := s.f.Raise(ctx, job, grant(12, "b"))
	wants(t, err, sqlfence.ErrBusy)
	if !waits() {
		t.Error("the COMMIT was ended")
	}
	confirm()
	must(t, <-done)
	if next := s.raise(t, grant(12, "b")); next.Previous.Seq != 1 || s.count(t) != 1 {
		t.Errorf("previous is %+v, %d invoices", next.Previous, s.count(t))
	}
}
