package sqltests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// alone are the servers that a test has to itself.
var alone = []struct {
	kind    *sqlnode.Kind
	dialect sqlfence.Dialect
}{{sqlnode.PostgreSQL, sqlfence.PostgreSQL}, {sqlnode.MariaDB, sqlfence.MariaDB}}

func eachServer(t *testing.T, o sqlnode.Options, f func(t *testing.T, server *sqlservers.Server, s *store)) {
	for _, a := range alone {
		t.Run(a.kind.String(), func(t *testing.T) {
			t.Parallel()
			server := sqlservers.Own(t, a.kind, o)
			d := server.Database(t, sqlservers.Options{})
			p := placeAt(d, a.dialect, d.DSN())
			p.Settle = 2 * time.Second
			f(t, server, p.fresh(t, nil))
		})
	}
}

// billing has the store write chunks one after the other, and tells how far it
// is and how it ended.
func (s *store) billing(t *testing.T, c fence.Claim, chunks int) (ended <-chan error) {
	done := make(chan error, 1)
	ctx := background(t)
	go func() { done <- s.bill(ctx, c, 0, chunks) }()
	return done
}

// awaitChunks waits until so many are there, as the server itself says.
func (s *store) awaitChunks(t *testing.T, want int) {
	t.Helper()
	await(t, fmt.Sprintf("%d chunks", want), func() bool {
		var n int
		err := s.db.QueryRowContext(background(t), s.q("SELECT count(*) FROM {d}")).Scan(&n)
		return err == nil && n >= want
	})
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within a minute", what)
		}
	}
}

// kill -9 of the server at any moment of a job, and its restart.
func TestAServerThatIsKilledAndRestartedBillsNothingTwice(t *testing.T) {
	t.Parallel()
	eachServer(t, sqlnode.Options{}, func(t *testing.T, server *sqlservers.Server, s *store) {
		c := s.raise(t, job, grant(7, "a"))
		kills, apart := trials(4, 40), 60
		done := s.billing(t, c, (kills+1)*apart)
		for i := range kills {
			s.awaitChunks(t, i*apart+apart/2)
			must(t, server.Kill())
			if _, err := s.f.Raise(t.Context(), "another", grant(9, "c")); !s.f.Retryable(err) {
				t.Errorf("a server that is down is back in a moment, and this is called final: %v", err)
			}
			must(t, server.Restart(background(t)))
		}
		must(t, <-done)
		must(t, s.f.Finish(t.Context(), c))
		s.wroteOnce(t, (kills+1)*apart)
	})
}

// The server was failed over, and this one may only be read.
func TestAReadOnlyServerIsADefiniteNo(t *testing.T) {
	t.Parallel()
	eachServer(t, sqlnode.Options{}, func(t *testing.T, server *sqlservers.Server, s *store) {
		c := s.raise(t, job, grant(7, "a"))
		must(t, s.write(t.Context(), c, chunk(0), "v", nil))
		setReadOnly(t, server, true)
		s.db.SetMaxIdleConns(-1) // those that are open may hear of it a moment later
		s.db.SetMaxIdleConns(20)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for what, do := range map[string]func() error{
			"write":  func() error { return s.write(ctx, c, chunk(1), "v", nil) },
			"finish": func() error { return s.f.Finish(ctx, c) },
			"raise":  func() error { _, err := s.f.Raise(ctx, job, grant(12, "b")); return err },
		} {
			err := do()
			if err == nil || errors.Is(err, fence.ErrUnknown) || !strings.Contains(strings.ReplaceAll(err.Error(), "-", " "), "read only") {
				t.Errorf("%s: %v", what, err)
			}
			if !s.f.Retryable(err) {
				t.Errorf("%s: a server that fails over is back in a moment, and this is called final: %v", what, err)
			}
		}
		setReadOnly(t, server, false)
		must(t, s.bill(background(t), c, 1, 3))
		must(t, s.f.Finish(background(t), c))
		s.wroteOnce(t, 3)
	})
}

// setReadOnly switches what every transaction may do from now on, those of open
// connections too.
func setReadOnly(t *testing.T, server *sqlservers.Server, on bool) {
	t.Helper()
	if server.Kind == sqlnode.MariaDB {
		server.Admin(t, fmt.Sprintf("SET GLOBAL read_only = %v", on))
		return
	}
	conn, err := server.AdminDB().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	for _, st := range []string{"SET default_transaction_read_only = off", fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %v", on), "SELECT pg_reload_conf()", "RESET default_transaction_read_only"} {
		if _, err := conn.ExecContext(t.Context(), st); err != nil {
			t.Fatal(st, err)
		}
	}
	await(t, "switch", func() bool {
		var now string
		err := server.AdminDB().QueryRowContext(t.Context(), "SHOW default_transaction_read_only").Scan(&now)
		return err == nil && (now == "on") == on
	})
}
