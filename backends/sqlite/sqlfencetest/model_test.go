package sqlfencetest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// See fencetest.Random.
func TestRandomProgramsGiveTheSameHistoryInMemoryAndOnSQLite(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	fencetest.Random(t, func(t *rapid.T) []fencetest.Side {
		n++
		s, err := side("file:" + filepath.Join(dir, fmt.Sprint(n, ".db")) + "?" + modes[1].params)
		if err != nil {
			t.Fatal(err)
		}
		return []fencetest.Side{s}
	})
}

// side is a new store, behind a network that loses what it is told to.
func side(dsn string) (fencetest.Side, error) {
	net := &faultsql.Network{}
	s, err := openStore(dsn, net.Hook)
	if err != nil {
		return fencetest.Side{}, err
	}
	f, err := sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite, Settle: time.Millisecond})
	if err == nil {
		err = s.f.Migrate(context.Background())
	}
	if err == nil {
		_, err = s.db.Exec(table)
	}
	hasty := store{s.db, f}
	return fencetest.Side{
		Store: s.suite(), Name: "SQLite", Net: net,
		Settle: s.f.Settle, Hasty: hasty.write, Values: s.values, Close: s.db.Close,
	}, err
}

// values is all data, in the order in which it was written.
func (s *store) values() (all []string, err error) {
	rows, err := s.db.Query("SELECT v FROM data ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
