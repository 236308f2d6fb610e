package faultsql

import (
	"errors"
	"fmt"
	"sync"
)

// Network is a hook that a test switches: it loses one request or answer, and
// may stay down from then on. The zero value loses nothing. It is safe for
// concurrent use; Keep is set before it.
type Network struct {
	// Keep has the connection itself survive the error.
	Keep bool

	mu   sync.Mutex
	loss Loss
	stay bool // down after the loss, until Heal
	down bool
	seen int
	lost int
}

// Loss tells what is to be lost: a request (Before) or its answer (After). It is
// called in the order in which they come by, one at a time.
type Loss func(r Request, w When) bool

// Hook is what Open and Wrap take.
func (n *Network) Hook(r Request, w When) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return fmt.Errorf("%w: still down", ErrLost)
	}
	if w == Before {
		n.seen++
	}
	if n.loss == nil || !n.loss(r, w) {
		return nil
	}
	n.loss, n.down = nil, n.stay
	n.lost++
	if n.Keep {
		return errors.New("the driver failed")
	}
	return fmt.Errorf("%w: %v %v", ErrLost, w, r)
}

// Lose sets what is lost next. With stay everything is, from then until Heal.
func (n *Network) Lose(stay bool, loss Loss) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.stay, n.seen = loss, stay, 0
}

// Heal lets everything through again.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.down, n.stay = nil, false, false
}

// Lost is how often what Lose named came by.
func (n *Network) Lost() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// Seen is how many requests came by since the last Lose.
func (n *Network) Seen() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// Nth loses the n-th request from now, counted from 0, or its answer.
func Nth(n int, when When) Loss {
	at := -1
	return func(_ Request, w When) bool {
		if w == Before {
			at++
		}
		return at == n && w == when
	}
}

// Commits loses the next COMMIT, or its answer.
func Commits(when When) Loss {
	return func(r Request, w When) bool { return r.Op == Commit && w == when }
}

// BothSides of a request, for tests that lose each in turn.
var BothSides = []When{Before, After}
