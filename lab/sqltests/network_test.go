package sqltests

import (
	"fmt"
	"sync"

	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

// network is a hook that a test switches: it loses one request or answer, and
// may stay down from then on.
type network struct {
	mu   sync.Mutex
	loss func(faultsql.Request, faultsql.When) bool
	stay bool // down after the loss, until heal
	down bool
	lost int
}

func (n *network) hook(r faultsql.Request, w faultsql.When) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return fmt.Errorf("%w: still down", faultsql.ErrLost)
	}
	if n.loss == nil || !n.loss(r, w) {
		return nil
	}
	n.loss, n.down = nil, n.stay
	n.lost++
	return fmt.Errorf("%w: %v %v", faultsql.ErrLost, w, r)
}

// lose sets what is lost next.
func (n *network) lose(stay bool, loss func(faultsql.Request, faultsql.When) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.stay = loss, stay
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

var bothSides = []faultsql.When{faultsql.Before, faultsql.After}
