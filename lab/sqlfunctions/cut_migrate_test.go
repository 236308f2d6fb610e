package sqlfunctions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
)

// The lock under which a migration runs is the session's on MariaDB, and a pool
// lets its sessions live: one that fails, or is called off, must not keep it.
func TestAMigrationThatIsCutShortLeavesItsLockToNobody(t *testing.T) {
	t.Parallel()
	errCut := errors.New("cut short on purpose")
	for what, calledOff := range map[string]bool{"a request fails": false, "it is called off": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			kinds(t, func(t *testing.T, s *store) {
				cut := true
				for n := 1; cut; n++ {
					o := sqlfence.Options{Dialect: s.dialect, Table: fmt.Sprintf("cut_%d_fence", n)}
					cut = false
					ctx, cancel := context.WithCancel(t.Context())
					seen := 0
					locked := false // so that the first table may be on its way
					db, err := faultsql.Open(s.at.Driver(), s.at.DSN(), func(r faultsql.Request, w faultsql.When) error {
						if r.Op == faultsql.Connect || r.Op == faultsql.Rollback {
							return nil
						}
						if w != faultsql.Before {
							locked = locked || strings.Contains(r.Query, "GET_LOCK")
							return nil
						}
						if seen++; seen != n {
							return nil
						}
						cut = true
						if calledOff {
							cancel()
							return nil
						}
						return errCut
					})
					must(t, err)
					db.SetMaxOpenConns(1)
					f, err := sqlfence.New(db, o)
					must(t, err)
					err = f.Migrate(ctx)
					cancel()
					if stays := strings.Contains(fmt.Sprint(err), "what was made so far stays"); err != nil {
						made := s.at.Count(t, "SELECT count(*) FROM information_schema.tables WHERE table_name = '"+o.Table+"' AND '"+s.at.Name+"' IN (table_schema, table_catalog)") > 0
						// That it is called off reaches the connection some time later: request
						// n and those after it may pass. A request that fails does so at once,
						// and the fourth makes the table.
						perhaps := calledOff && locked || !calledOff && n > 4
						if made && (s.postgres() || !stays) || stays && (s.postgres() || !perhaps) {
							t.Errorf("request %d: something was made: %t; it says %v", n, made, err)
						}
					}
					if s.at.Kind == sqlnode.PostgreSQL {
						until(t, fmt.Sprintf("no advisory lock after request %d was cut", n), func() bool {
							return s.at.Count(t, "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = $1", s.at.Name) == 0
						})
					}
					// The pool still has whatever session it kept.
					soon, done := context.WithTimeout(t.Context(), 20*time.Second)
					if err := with(t, s.at, s.at.DSN(), o).f.Migrate(soon); err != nil {
						t.Errorf("another one, after request %d was cut: %v", n, err)
					}
					done()
					must(t, db.Close())
					if !cut && n < 8 {
						t.Fatalf("only %d requests", n)
					}
				}
			})
		})
	}
}
