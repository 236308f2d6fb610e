package effecttests

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-dev/stint/backends/pgfence"
	"github.com/stint-dev/stint/fence/idempotent"
	"github.com/stint-dev/stint/fence/idempotent/storetest"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// Who uses pgx has no *sql.DB, and needs none but this: one over the same pool. The
// fence is raised through pgx.
func TestAPgxPoolKeepsTheContractThroughItsOwnDatabaseSQL(t *testing.T) {
	d := sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{})
	pool, err := pgxpool.New(t.Context(), d.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		n := tables.Add(1)
		table := fmt.Sprintf("fence_%d", n)
		f, err := pgfence.New(pool, pgfence.Options{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		same, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.PostgreSQL, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		s, err := idempotent.NewSQL(db, same, idempotent.SQLOptions{Dialect: sqlfence.PostgreSQL, Table: fmt.Sprintf("effects_%d", n)})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return storetest.Subject{Store: s, Fence: f}
	})
}
