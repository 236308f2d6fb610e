// Package effecttests tests fence/idempotent on PostgreSQL and MariaDB.
package effecttests

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/idempotent"
	"github.com/stint-dev/stint/fence/idempotent/storetest"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of a test here is waiting for a server
		panic(err)
	}
	goleak.VerifyTestMain(sqlservers.Closing(m))
}

var servers = map[string]struct {
	server  func(sqlservers.TB) *sqlservers.Server
	dialect sqlfence.Dialect
}{
	"PostgreSQL": {sqlservers.PostgreSQL, sqlfence.PostgreSQL},
	"MariaDB":    {sqlservers.MariaDB, sqlfence.MariaDB},
}

// site is the database, with the fence and the records in tables of their own.
type site struct {
	f *sqlfence.Fence
	s *idempotent.SQL
}

var tables atomic.Int64

func open(t *testing.T, d *sqlservers.Database, dialect sqlfence.Dialect, dsn string) site {
	t.Helper()
	db, err := sql.Open(d.Driver(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	n := tables.Add(1)
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: dialect, Table: fmt.Sprintf("fence_%d", n)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := idempotent.NewSQL(db, f, idempotent.SQLOptions{Dialect: dialect, Table: fmt.Sprintf("effects_%d", n)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := f.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return site{f, s}
}

func TestServersKeepTheContract(t *testing.T) {
	for name, x := range servers {
		for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
			t.Run(name+" "+isolation, func(t *testing.T) {
				d := x.server(t).Database(t, sqlservers.Options{Isolation: isolation, Dictionary: true})
				storetest.Run(t, func(t *testing.T) storetest.Subject {
					at := open(t, d, x.dialect, d.DSN())
					return storetest.Subject{Store: at.s, Fence: at.f}
				})
			})
		}
	}
	t.Run("PostgreSQL by PgBouncer", func(t *testing.T) {
		d := sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{})
		dsn := d.At(d.Pooler(t, d).Addr(), "default_query_exec_mode=exec")
		storetest.Run(t, func(t *testing.T) storetest.Subject {
			at := open(t, d, sqlfence.PostgreSQL, dsn)
			return storetest.Subject{Store: at.s, Fence: at.f}
		})
	})
}

// TestACommitThatIsCutOffNeverPaysTwice breaks the connection around the COMMIT of
// the record before the call, and of the one after it.
func TestACommitThatIsCutOffNeverPaysTwice(t *testing.T) {
	for name, x := range servers {
		d := x.server(t).Database(t, sqlservers.Options{})
		for what, cut := range map[string]sqlservers.Cut{
			"before it arrives": sqlservers.BeforeIt, "before its answer": sqlservers.BeforeReply, "and it arrives late": sqlservers.HeldBack,
		} {
			for _, record := range []string{"PENDING", "DONE"} {
				t.Run(name+" "+record+" "+what, func(t *testing.T) {
					g := d.Gate(t)
					at := open(t, d, x.dialect, d.At(g.Addr(), ""))
					claim, err := at.f.Raise(t.Context(), "payments", fence.Grant{Token: 7, Nonce: "a"})
					if err != nil {
						t.Fatal(err)
					}
					late := time.AfterFunc(time.Hour, g.Deliver)
					defer late.Stop()
					cutNext := func(now bool) {
						if now {
							g.CutNext(cut, false)
							late.Reset(300 * time.Millisecond) // after a look or two
						}
					}
					cutNext(record == "PENDING")
					paid := 0
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					out, err := idempotent.Do(ctx, at.s, claim, idempotent.Effect{Key: "invoice/4711", Timeout: 2 * time.Second,
						Call: func(context.Context, string) (string, error) {
							paid++
							cutNext(record == "DONE")
							return "receipt", nil
						}})
					if err != nil || out.State != idempotent.Done || out.Before || paid != 1 || g.Cuts() != 1 {
						t.Errorf("paid %d times, %d cuts, %v, %v", paid, g.Cuts(), out, err)
					}
					if r, err := at.s.Get(ctx, "invoice/4711"); err != nil || r.State != idempotent.Done || r.Result != "receipt" {
						t.Errorf("the record is %v, %v", r, err)
					}
				})
			}
		}
	}
}
