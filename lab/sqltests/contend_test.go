package sqltests

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
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
