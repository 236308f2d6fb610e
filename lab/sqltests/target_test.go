package sqltests

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"                    // driver "postgres"
	_ "github.com/ncruces/go-sqlite3/driver" // driver "sqlite3"

	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// job is the name of the lease and of the fence.
const job = "billing"

// target is a database as a program may have it: server, isolation, driver, way.
type target struct {
	database  string
	isolation string
	driver    string // and the way; for people
	dialect   sqlfence.Dialect
	place     func(t testing.TB, g target) place
}

func (g target) String() string { return g.database + " " + g.isolation + " " + g.driver }

// place is where stores of one test lie, for this process and for others: it
// travels as JSON.
type place struct {
	Driver, DSN string
	Dialect     sqlfence.Dialect
	Fence, Data string // tables
	Settle      time.Duration
	Lock        time.Duration // of Raise

	db *sqlservers.Database // nil: SQLite
}

const (
	readCommitted  = "read committed"
	repeatableRead = "repeatable read"
	serializable   = "serializable"
)

// databases are the targets that differ in what the database does; ways differ
// in how it is reached.
var (
	sqlite   = target{"SQLite", serializable, "ncruces", sqlfence.SQLite, sqlitePlace}
	postgres = []target{
		{"PostgreSQL", readCommitted, "pgx", sqlfence.PostgreSQL, serverPlace},
		{"PostgreSQL", repeatableRead, "pgx", sqlfence.PostgreSQL, serverPlace},
		{"PostgreSQL", serializable, "pgx", sqlfence.PostgreSQL, serverPlace},
	}
	mariadb = []target{
		{"MariaDB", readCommitted, "mysql", sqlfence.MariaDB, serverPlace},
		{"MariaDB", repeatableRead, "mysql", sqlfence.MariaDB, serverPlace},
		{"MariaDB", serializable, "mysql", sqlfence.MariaDB, serverPlace},
	}
	servers   = append(append([]target{}, postgres...), mariadb...)
	databases = append([]target{sqlite}, servers...)
	ways      = []target{
		{"PostgreSQL", readCommitted, "lib/pq", sqlfence.PostgreSQL, pqPlace},
		{"PostgreSQL", readCommitted, "pgx by PgBouncer", sqlfence.PostgreSQL, poolerPlace},
		{"PostgreSQL", serializable, "pgx by PgBouncer", sqlfence.PostgreSQL, poolerPlace},
	}
)

var tables atomic.Int64

// beside is another place in the same database.
func (p place) beside() place {
	n := tables.Add(1)
	p.Fence, p.Data = fmt.Sprintf("fence_%d", n), fmt.Sprintf("data_%d", n)
	return p
}

func (g target) at(t testing.TB) place { return g.place(t, g) }

func sqlitePlace(t testing.TB, g target) place {
	dsn := "file:" + filepath.Join(t.TempDir(), "store.db") +
		"?_pragma=busy_timeout(20)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	return place{Driver: "sqlite3", DSN: dsn, Dialect: g.dialect}.beside()
}

// database gives the target a database of its own. Text in one of PostgreSQL's
// is ordered by a dictionary, MariaDB compares it without case and accents: the
// fence's table has to know better.
func database(t testing.TB, g target) *sqlservers.Database {
	o := sqlservers.Options{Isolation: g.isolation, Dictionary: g.isolation == repeatableRead}
	if g.dialect == sqlfence.MariaDB {
		return sqlservers.MariaDB(t).Database(t, o)
	}
	return sqlservers.PostgreSQL(t).Database(t, o)
}

func serverPlace(t testing.TB, g target) place {
	d := database(t, g)
	return placeAt(d, g.dialect, d.DSN())
}

func placeAt(d *sqlservers.Database, dialect sqlfence.Dialect, dsn string) place {
	return place{Driver: d.Driver(), DSN: dsn, Dialect: dialect, db: d}.beside()
}

func pqPlace(t testing.TB, g target) place {
	p := serverPlace(t, g)
	p.Driver = "postgres"
	return p
}

func poolerPlace(t testing.TB, g target) place {
	d := database(t, g)
	// A pooler of this age keeps no prepared statements: the driver's own
	// parameter says so, as its users have it.
	return placeAt(d, g.dialect, d.At(d.Pooler(t, d).Addr(), "default_query_exec_mode=exec"))
}

// each runs f for every target, at once.
func each(t *testing.T, targets []target, f func(t *testing.T, g target)) {
	for _, g := range targets {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			f(t, g)
		})
	}
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
