package sqlcore

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// oneValueDB answers which version it is, and nothing else.
type oneValueDB struct{ value string }

func (d *oneValueDB) Identity() any { return d }

func (d *oneValueDB) Query(_ context.Context, query string, _ []any, each func(func(...any) error) error) error {
	if query != postgresServer.query && query != mariaServer.query {
		return errReached
	}
	return each(func(dest ...any) error { *dest[0].(*string) = d.value; return nil })
}

func (d *oneValueDB) Exec(context.Context, string, ...any) (int64, error) { return 0, errReached }

func (d *oneValueDB) Try(ctx context.Context, _ *Attempt, fn func(context.Context, Tx) error) (Outcome, error) {
	return NotSent, fn(ctx, d)
}

func (*oneValueDB) Dead(error) bool { return false }
func (*oneValueDB) Over(error) bool { return false }

var errReached = errors.New("the migration was begun")

func TestAMigrationOfAnotherServerEndsInWordsBeforeItBegins(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		version string
		refused string // empty: it is begun
	}{
		{MariaDB, "10.11.4-MariaDB-1~deb12u1-log", ""},
		{MariaDB, "5.5.5-10.6.12-MariaDB", ""},
		{MariaDB, "11.4.2-MariaDB-ubu2404", ""},
		{MariaDB, "10.5.21-MariaDB", "needs MariaDB 10.6"},
		{MariaDB, "5.5.5-10.3.39-MariaDB", "needs MariaDB 10.6"},
		{MariaDB, "8.0.36", "no fence for MySQL"},
		{MariaDB, "8.4.0-0ubuntu0.22.04.1", "no fence for MySQL"},
		{MariaDB, "5.7.25-TiDB-v7.5.0", "no fence for MySQL"},
		{PostgreSQL, "150018", ""},
		{PostgreSQL, "130000", ""},
		{PostgreSQL, "120017", "needs PostgreSQL 13"},
		{PostgreSQL, "?", "needs PostgreSQL 13"},
	} {
		db := &oneValueDB{value: c.version}
		e, err := New(db, Options{Package: "test", Dialect: c.dialect})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Migrate(t.Context())
		switch {
		case c.refused == "":
			if !errors.Is(err, errReached) {
				t.Errorf("%v %s: %v", c.dialect, c.version, err)
			}
		case errors.Is(err, errReached) || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), c.version) ||
			!strings.Contains(err.Error(), "Nothing was written"):
			t.Errorf("%v %s: %v", c.dialect, c.version, err)
		}
	}
}
