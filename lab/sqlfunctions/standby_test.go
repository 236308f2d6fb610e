package sqlfunctions

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// standby is a server on which a COMMIT that asks for it waits for a standby that
// is not there: done, and not ended, until confirm.
func standby(t *testing.T) (server *sqlservers.Server, waits func() bool, confirm func()) {
	server = sqlservers.Own(t, sqlnode.PostgreSQL, sqlnode.Options{Settings: []string{"synchronous_commit=local"}})
	server.Admin(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	until(t, "the server wants a standby", func() bool {
		return server.Count(t, "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = 'nobody'") == 1
	})
	waits = func() bool {
		return server.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 1
	}
	return server, waits, func() {
		server.Admin(t, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	}
}

// PostgreSQL gives up a reader at SERIALIZABLE, a single SELECT too, which meets
// a transaction in the middle of its COMMIT that is already behind another one.
func TestAReadAtSerializableIsRepeatedUntilTheCommitBesideItHasEnded(t *testing.T) {
	t.Parallel()
	server, waits, confirm := standby(t)
	s := fresh(t, server.Database(t, sqlservers.Options{Isolation: "serializable"}))
	c := s.raise(t, grant(7, "a"))
	done := make(chan error, 1)
	go func() {
		done <- s.f.InTx(context.Background(), c, nil, func(tx *sql.Tx) error {
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM invoices").Scan(&n); err != nil {
				return err
			}
			if _, err := s.db.Exec(insert); err != nil { // after what was read, and committed first
				return err
			}
			_, err := tx.Exec("SET LOCAL synchronous_commit = on")
			return err
		})
	}()
	until(t, "COMMIT waits for its standby", waits)
	var seq int64
	err := s.db.QueryRow("SELECT seq FROM stint_fence").Scan(&seq)
	if err == nil || !strings.Contains(err.Error(), "40001") {
		t.Fatalf("a plain read was let through, so that this test shows nothing: %v", err)
	}

	until(t, "a read that is given up says that it may be repeated", func() bool { // one that came to no answer cannot
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := s.f.Row(short, job)
		wants(t, err, context.DeadlineExceeded)
		return s.f.Retryable(err)
	})
	reads := map[string]func() error{
		"Row":   func() error { _, err := s.f.Row(t.Context(), job); return err },
		"Check": func() error { return s.f.Check(t.Context(), c) },
		"Claims": func() error {
			for _, err := range s.f.Claims(t.Context()) {
				return err
			}
			return fence.ErrNoFence
		},
	}
	answers := make(chan error, len(reads))
	for what, read := range reads {
		go func() {
			err := read()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			answers <- err
		}()
	}
	confirm()
	for range reads {
		<-answers
	}
	must(t, <-done)
}
