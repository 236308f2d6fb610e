package sqlfencetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// network is a hook that a test switches: it loses one request or answer, and
// may stay down from then on.
type network struct {
	mu   sync.Mutex
	loss func(faultsql.Request, faultsql.When) bool
	stay bool // down after the loss, until heal
	keep bool // the connection itself survives the error
	down bool
	seen []faultsql.Request
	lost int
}

func (n *network) hook(r faultsql.Request, w faultsql.When) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return fmt.Errorf("%w: still down", faultsql.ErrLost)
	}
	if w == faultsql.Before {
		n.seen = append(n.seen, r)
	}
	if n.loss == nil || !n.loss(r, w) {
		return nil
	}
	n.loss, n.down = nil, n.stay
	n.lost++
	if n.keep {
		return errors.New("the driver failed")
	}
	return fmt.Errorf("%w: %v %v", faultsql.ErrLost, w, r)
}

// lose sets what is lost next.
func (n *network) lose(stay bool, loss func(faultsql.Request, faultsql.When) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.stay, n.seen = loss, stay, nil
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.down, n.stay = nil, false, false
}

// nth loses the n-th request from now, counted from 0.
func nth(i int, when faultsql.When) func(faultsql.Request, faultsql.When) bool {
	n := -1
	return func(_ faultsql.Request, w faultsql.When) bool {
		if w == faultsql.Before {
			n++
		}
		return n == i && w == when
	}
}

// commits loses the next COMMIT, or its answer.
func commits(when faultsql.When) func(faultsql.Request, faultsql.When) bool {
	return func(r faultsql.Request, w faultsql.When) bool { return r.Op == faultsql.Commit && w == when }
}

func faulty(t testing.TB, m mode, settle time.Duration) (s, clean *store, n *network) {
	t.Helper()
	dsn := m.dsn(t)
	n = &network{}
	clean = fresh(t, dsn, nil)
	s = reopen(t, dsn, n.hook)
	s.db.SetMaxOpenConns(1) // settling needs no second connection beside the first
	f, err := sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite, Settle: settle})
	must(t, err)
	s.f = f
	return s, clean, n
}

// mend ends an outage, and lets settling take its time again.
func (n *network) mend(t testing.TB, s *store) {
	t.Helper()
	n.heal()
	f, err := sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite})
	must(t, err)
	s.f = f
}

var bothSides = []faultsql.When{faultsql.Before, faultsql.After}
