package sqlfunctions

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.exec(t, "CREATE TABLE mine (name VARCHAR(100) PRIMARY KEY)")
		var wg sync.WaitGroup
		for i := range 8 {
			o := sqlfence.Options{Table: "busy_fence"}
			if i%2 == 0 {
				o = sqlfence.Options{Table: "mine", Own: &sqlfence.Own{}}
			}
			other := with(t, s.at, s.at.DSN(), o)
			wg.Go(func() {
				for range 3 {
					if err := other.f.Migrate(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		other := with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "busy_fence"})
		other.raise(t, grant(7, "a"))
		must(t, other.inTx(t, other.db, s.call("busy_admit", job, "7.a")))
	})
}

// The tables of a program that knew no functions get them, and keep their rows.
func TestTablesOfTheFirstVersionGetTheFunctions(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		old := with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "old_fence"})
		for _, q := range old.f.MigrateSQL() {
			if strings.Contains(q, "old_fence") && !strings.Contains(q, "FUNCTION") && !strings.Contains(q, "PROCEDURE") && !strings.HasPrefix(q, "UPDATE") {
				s.exec(t, q)
			}
		}
		old.raise(t, grant(7, "a"))
		must(t, old.f.Migrate(t.Context()))
		must(t, old.inTx(t, old.db, s.call("old_admit", job, "7.a")))
	})
}

func TestMigrateSQLMakesTheSame(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		other := with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "hand_fence"})
		for range 2 {
			s.exec(t, other.f.MigrateSQL()...)
		}
		other.raise(t, grant(7, "a"))
		must(t, other.f.Migrate(t.Context()))
		must(t, other.inTx(t, other.db, s.call("hand_finish", job, "7.a")))
	})
}

func TestTablesOfANewerVersionAreRefused(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.exec(t, "UPDATE stint_fence_meta SET v = 99 WHERE k = 'version'")
		if err := s.f.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "newer") {
			t.Fatalf("Migrate says %v", err)
		}
		s.raise(t, grant(7, "a"))
	})
}

// Nothing is called up to date that is not there.
func TestATableThatWasDroppedOrAlteredIsNoticed(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.exec(t, "ALTER TABLE stint_fence DROP COLUMN mark")
		if err := s.f.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "not as it was made") {
			t.Errorf("without a column Migrate says %v", err)
		}
		s.exec(t, "DROP TABLE stint_fence")
		must(t, s.f.Migrate(t.Context()))
		s.raise(t, grant(7, "a"))
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, "7.a")))
	})
}

// MariaDB keeps what a migration has made before it failed; what failed before
// that has made nothing.
func TestAMigrationThatFailsSaysWhatStays(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		says := func(f *store, want string) {
			t.Helper()
			if err := f.f.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Migrate says %v; want %q", err, want)
			}
		}
		says(with(t, s.at, s.at.As("nobody_"+s.at.Name, "", s.at.Addr(), ""), sqlfence.Options{}), "nothing was written")
		if !s.postgres() {
			s.exec(t, "CREATE TABLE half_fence_meta (k INT)") // the third statement fails
			says(with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "half_fence"}), "what was made so far stays")
		}
	})
}

// The program's own user may have no right to make tables, nor to see others.
func TestAUserWithFewRightsUsesAFenceThatIsThere(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		user := "few_" + s.at.Name
		if s.postgres() {
			s.at.Admin(t, "CREATE ROLE "+user+" LOGIN PASSWORD 'few'")
			t.Cleanup(func() { s.asAdmin(t, "DROP OWNED BY "+user); s.at.Admin(t, "DROP ROLE "+user) })
			s.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON stint_fence, invoices TO "+user, "GRANT SELECT, UPDATE ON stint_fence_meta TO "+user)
		} else {
			s.at.Admin(t, "CREATE USER "+user+"@'127.0.0.1' IDENTIFIED BY 'few'")
			t.Cleanup(func() { s.at.Admin(t, "DROP USER "+user+"@'127.0.0.1'") })
			for _, table := range []string{"stint_fence", "invoices", "stint_fence_meta"} {
				s.at.Admin(t, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.%s TO %s@'127.0.0.1'", s.at.Name, table, user))
			}
			s.at.Admin(t, fmt.Sprintf("GRANT EXECUTE ON %s.* TO %s@'127.0.0.1'", s.at.Name, user))
		}
		few := with(t, s.at, s.at.As(user, "few", s.at.Addr(), ""), sqlfence.Options{})
		must(t, few.f.Migrate(t.Context())) // only reads
		c := few.raise(t, grant(7, "a"))
		must(t, few.inTx(t, few.db, s.call("stint_admit", job, "7.a"), insert, s.call("stint_finish", job, "7.a")))
		must(t, few.f.Finish(t.Context(), c))
		if n, err := few.f.Prune(t.Context(), 0); err != nil || n != 1 {
			t.Errorf("pruned %d, %v", n, err)
		}
		other := with(t, s.at, s.at.As(user, "few", s.at.Addr(), ""), sqlfence.Options{Table: "new_fence"})
		if err := other.f.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "docs/sql.md") {
			t.Errorf("Migrate without the right says %v", err)
		}
	})
}

// asAdmin runs a statement in the test's database at the end of the test.
func (s *store) asAdmin(t *testing.T, q string) {
	db, err := sql.Open(s.at.Driver(), s.at.As(sqlnode.User, s.at.Password(), s.at.Addr(), ""))
	must(t, err)
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), q); err != nil {
		t.Errorf("%s: %v", q, err)
	}
}

// Names that differ only by collation are two fences.
func TestADatabasesCollationMakesNoTwoNamesOne(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{Dictionary: true}))
	for i, name := range []string{"a", "A", "á", "a\u0301", "ａ"} {
		c, err := s.f.Raise(t.Context(), name, grant(fence.Token(i+1), "n"))
		if err != nil || c.Previous.Fence != 0 {
			t.Errorf("%q: %+v, %v", name, c.Previous, err)
		}
	}
}
