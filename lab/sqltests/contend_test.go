package sqltests

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// contenders raise one name at once, each with a connection of its own.
const contenders = 64

func TestSixtyFourContendersRaiseWithoutADeadlockOrALostFence(t *testing.T) {
	t.Parallel()
	each(t, append(append([]target{}, servers...), ways...), func(t *testing.T, g target) {
		s := g.at(t).fresh(t, nil)
		s.db.SetMaxIdleConns(contenders)
		for round := range trials(2, 50) {
			s.contend(t, fmt.Sprint("job", round))
		}
		if s.Dialect == sqlfence.PostgreSQL {
			query := "SELECT deadlocks FROM pg_stat_database WHERE datname = $1"
			if n := s.place.db.Count(t, query, s.place.db.Name); n != 0 {
				t.Errorf("the server has resolved %d deadlocks", n)
			}
		}
	})
}

// MariaDB counts deadlocks for all of a server, and the dialect repeats what met one:
// only a server of its own can tell.
func TestContendersMeetNoDeadlockOnMariaDB(t *testing.T) {
	t.Parallel()
	d := sqlservers.Own(t, sqlnode.MariaDB, sqlnode.Options{}).Database(t, sqlservers.Options{})
	s := placeAt(d, sqlfence.MariaDB, d.DSN()).fresh(t, nil)
	s.db.SetMaxIdleConns(contenders)
	for round := range trials(4, 50) {
		s.contend(t, fmt.Sprint("job", round))
	}
	if n := s.deadlocks(t); n != 0 {
		t.Errorf("the server has resolved %d deadlocks", n)
	}
	s.deadlock(t)
	if n := s.deadlocks(t); n != 1 {
		t.Errorf("of one deadlock the server counts %d: it would not tell of others", n)
	}
}

func (s *store) deadlocks(t *testing.T) (n int) {
	t.Helper()
	var what string
	must(t, s.db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&what, &n))
	return n
}

// deadlock has two transactions lock two rows, each the other's second.
func (s *store) deadlock(t *testing.T) {
	t.Helper()
	for _, q := range []string{"CREATE TABLE two (id INT PRIMARY KEY, n INT)", "INSERT INTO two VALUES (0, 0), (1, 0)"} {
		_, err := s.db.ExecContext(t.Context(), q)
		must(t, err)
	}
	const q = "UPDATE two SET n = n + 1 WHERE id = ?"
	var both [2]*sql.Tx
	for i := range both {
		var err error
		both[i], err = s.db.BeginTx(t.Context(), nil)
		must(t, err)
		defer both[i].Rollback()
		_, err = both[i].Exec(q, i)
		must(t, err)
	}
	errs := make(chan error, 2)
	for i, tx := range both {
		go func() { _, err := tx.Exec(q, 1-i); errs <- err }()
	}
	if a, b := <-errs, <-errs; (a == nil) == (b == nil) || !s.f.Retryable(errors.Join(a, b)) {
		t.Errorf("of two that wait for each other one has to give way: %v, %v", a, b)
	}
}

func (s *store) contend(t *testing.T, name string) {
	var mu sync.Mutex
	var got []fence.Claim
	var all sync.WaitGroup
	for _, i := range rand.Perm(contenders) {
		token := fence.Token(i + 1)
		all.Go(func() {
			c, err := s.f.Raise(background(t), name, grant(token, "n"))
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				got = append(got, c)
			case !errors.Is(err, fence.ErrStale):
				t.Errorf("raise to %d: %v", token, err)
			}
		})
	}
	all.Wait()
	slices.SortFunc(got, func(a, b fence.Claim) int { return cmp.Compare(a.Grant.Token, b.Grant.Token) })
	for i, c := range got {
		before := fence.Token(0)
		if i > 0 {
			before = got[i-1].Grant.Token
		}
		if c.Previous.Fence != before {
			t.Errorf("%d was let in after %d, says its claim; it came after %d: a fence was lost", c.Grant.Token, c.Previous.Fence, before)
		}
	}
	if len(got) == 0 || got[len(got)-1].Grant.Token != contenders {
		t.Errorf("the highest token was not let in: %d were", len(got))
	}
	if r, err := s.f.Row(t.Context(), name); err != nil || r.Fence != contenders {
		t.Errorf("the row is %+v, %v", r, err)
	}
}
