package sqlservers_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqlservers.Closing(m)) }

var kinds = map[string]func(sqlservers.TB) *sqlservers.Server{"PostgreSQL": sqlservers.PostgreSQL, "MariaDB": sqlservers.MariaDB}

func open(t *testing.T, d *sqlservers.Database, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.Driver(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(s, err)
		}
	}
}

func rows(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADatabaseHasTheIsolationThatItsTestAskedFor(t *testing.T) {
	for name, server := range kinds {
		for _, level := range []string{"read committed", "repeatable read", "serializable"} {
			t.Run(name+" "+level, func(t *testing.T) {
				d := server(t).Database(t, sqlservers.Options{Isolation: level})
				db := open(t, d, d.DSN())
				query := "SHOW transaction_isolation"
				if d.Kind == sqlnode.MariaDB {
					query = "SELECT REPLACE(LOWER(@@tx_isolation), '-', ' ')"
				}
				var got string
				if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != level {
					t.Fatal(got, err)
				}
			})
		}
	}
}

// A gate that cut elsewhere than it says would make every test of lost answers
// worthless.
func TestAGateCutsAtTheCommit(t *testing.T) {
	for name, server := range kinds {
		for cut, applied := range map[sqlservers.Cut]int{sqlservers.BeforeIt: 0, sqlservers.BeforeReply: 1, sqlservers.HeldBack: 1} {
			t.Run(name, func(t *testing.T) {
				d := server(t).Database(t, sqlservers.Options{})
				direct := open(t, d, d.DSN())
				exec(t, direct, "CREATE TABLE t (id INT PRIMARY KEY)")
				g := d.Gate(t)
				db := open(t, d, d.At(g.Addr(), ""))
				exec(t, db, "INSERT INTO t VALUES (1)") // no COMMIT is sent
				g.CutNext(cut, true)
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(); err == nil || g.Cuts() != 1 {
					t.Fatalf("COMMIT was answered (%v), %d cuts", err, g.Cuts())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := db.PingContext(ctx); err == nil {
					t.Error("somebody gets through a shut gate")
				}
				if cut == sqlservers.HeldBack {
					if n := rows(t, direct); n != 1 {
						t.Fatalf("the COMMIT that is held back has arrived: %d rows", n)
					}
					g.Deliver()
				}
				for deadline := time.Now().Add(10 * time.Second); rows(t, direct) != 1+applied; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("cut %v: %d rows, want %d", cut, rows(t, direct), 1+applied)
					}
				}
				g.Open()
				if n := rows(t, db); n != 1+applied {
					t.Errorf("through the open gate: %d rows", n)
				}
			})
		}
	}
}

func TestAPoolerGivesEachTransactionAnotherConnection(t *testing.T) {
	d := sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{})
	p := d.Pooler(t, d)
	db := open(t, d, d.At(p.Addr(), "default_query_exec_mode=exec"))
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	busy, err := db.BeginTx(t.Context(), nil) // so that there are two
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Rollback()
	exec(t, db, "INSERT INTO t VALUES (1)")
	if err := busy.Rollback(); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	seen := map[int]bool{}
	for range 10 {
		var pid int
		if err := conn.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		seen[pid] = true
	}
	if len(seen) < 2 {
		t.Errorf("ten transactions of a client were all on one connection of the server")
	}
}

func TestAUserIsNoAdministrator(t *testing.T) {
	for name, server := range kinds {
		t.Run(name, func(t *testing.T) {
			d := server(t).Database(t, sqlservers.Options{})
			db := open(t, d, d.DSN())
			query := "SELECT CASE WHEN rolsuper THEN 'ALL PRIVILEGES ON *.*' ELSE '' END FROM pg_roles WHERE rolname = current_user"
			if d.Kind == sqlnode.MariaDB {
				query = "SHOW GRANTS"
			}
			var got string
			if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || strings.Contains(got, "ALL PRIVILEGES ON *.*") {
				t.Fatal(got, err)
			}
		})
	}
}
