package sqltests

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

var errAbandon = errors.New("abandoned on purpose")

// However a transaction ends, its connection goes back to the pool without a
// lock and without a bound on its idle time.
func TestATransactionLeavesNothingOnItsConnection(t *testing.T) {
	t.Parallel()
	each(t, servers, func(t *testing.T, g target) {
		p := g.at(t)
		s, other := p.fresh(t, nil), p.reopen(t, nil)
		s.db.SetMaxOpenConns(1)
		c := s.raise(t, job, grant(7, "a"))
		ctx, cancel := context.WithCancel(t.Context())
		for how, between := range map[string]func() error{
			"goes well": nil, "fails": func() error { return errAbandon },
			"panics": func() error { panic(errAbandon) }, "is cut short": func() error { cancel(); return nil },
		} {
			func() {
				defer func() { _ = recover() }()
				if how != "is cut short" {
					_ = s.write(t.Context(), c, "k", "v", between)
					return
				}
				_ = s.write(ctx, c, "k", "v", between)
			}()
			await(t, "free row after a transaction that "+how, func() bool { return s.locks(t) == 0 })
			if got, want := idleBound(t, s.db, g), idleBound(t, other.db, g); got != want {
				t.Errorf("after a transaction that %s, the session's bound is %s, a new one's %s", how, got, want)
			}
		}
		cancel()
		other.raise(t, job, grant(12, "b"))
	})
}

// locks is how many transactions of the test's user have any.
func (s *store) locks(t *testing.T) int {
	t.Helper()
	if s.Dialect == sqlfence.MariaDB {
		return s.place.db.Count(t, "SELECT count(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id WHERE p.user = ?", s.place.db.User)
	}
	return s.place.db.Count(t, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.usename = $1 AND a.state <> 'active'", s.place.db.User)
}

func idleBound(t *testing.T, db *sql.DB, g target) (bound string) {
	t.Helper()
	query := "SHOW idle_in_transaction_session_timeout"
	if g.dialect == sqlfence.MariaDB {
		query = "SELECT @@idle_transaction_timeout"
	}
	must(t, db.QueryRowContext(background(t), query).Scan(&bound))
	return bound
}

// A holder pauses between the check and its commit. Its successor raises, and
// what comes after that is never committed.
func TestAPauseBetweenCheckAndCommitWritesNothing(t *testing.T) {
	t.Parallel()
	paused(t, func(s *store) error { _, err := s.f.Raise(context.Background(), job, grant(12, "b")); return err })
}

// An operator breaks the lease of a holder that hangs in its transaction, with
// the rights to the database alone, before anybody else is granted it.
func TestAHangingHolderIsShutOutByHand(t *testing.T) {
	t.Parallel()
	paused(t, func(s *store) error { return s.f.Bar(context.Background(), job, 7) })
}

func paused(t *testing.T, meanwhile func(*store) error) {
	each(t, servers, func(t *testing.T, g target) {
		p := g.at(t)
		p.Lock = lockTime
		s, other := p.fresh(t, nil), p.reopen(t, nil)
		c := s.raise(t, job, grant(7, "a"))
		err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(t.Context(), s.q("INSERT INTO {d} (k, v, token) VALUES ('k', 'before', 7)")); err != nil {
				return err
			}
			must(t, meanwhile(other))
			_, err := tx.ExecContext(t.Context(), s.q("INSERT INTO {d} (k, v, token) VALUES ('k', 'after', 7)"))
			return err
		})
		if err == nil || errors.Is(err, fence.ErrUnknown) {
			t.Errorf("the paused holder was told %v", err)
		}
		if n := other.count(t, "k"); n != 0 {
			t.Errorf("%d rows of the paused holder were written", n)
		}
		wants(t, s.write(t.Context(), c, "k", "late", nil), fence.ErrStale)
	})
}

// What a server counts in memory must not repeat after a restart: a pruned name
// still refuses what it refused, and its count of transactions does not fall.
func TestARestartedServerRepeatsNoNumber(t *testing.T) {
	t.Parallel()
	eachServer(t, sqlnode.Options{}, func(t *testing.T, server *sqlservers.Server, s *store) {
		c := s.raise(t, job, grant(7, "a"))
		must(t, s.bill(background(t), c, 0, 5))
		must(t, s.f.Finish(t.Context(), c))
		if n, err := s.f.Prune(t.Context(), 0); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		must(t, server.Kill())
		must(t, server.Restart(background(t)))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := s.f.Raise(ctx, job, grant(7, "b"))
		wants(t, err, fence.ErrStale)
		if next := s.raise(t, job, grant(8, "c")); next.Previous.Seq < 5 {
			t.Errorf("the count of transactions has fallen to %d", next.Previous.Seq)
		}
	})
}
