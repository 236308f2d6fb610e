package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Authority grants leases from etcd. It is safe for concurrent use. Its leases
// cost no goroutine each; the authority has a few, which end with Close.
type Authority struct {
	client *clientv3.Client
	o      Options
	keys   keyspace
	clock  authority.BootClock
	net    *network
	ctx    context.Context // of everything that goes on in the background
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	closed   chan struct{} // closed by Close
	closing  bool
	places   map[string]*place // by key
	nonces   map[nonce]*place
	waiting  map[wait]*place              // by who waits, until the place ends
	current  map[time.Duration][]*session // those that take new places, the oldest first
	all      map[*session]struct{}        // the current ones and those that end
	lines    map[string]*line             // by name, those with a waiter of ours
	news     *watch                       // nil: nobody waits
	queue    []*op
	flying   bool          // a Txn is under way
	runway   chan struct{} // wakes the goroutine that sends Txns; nil until there is one
	landing  int           // Txns whose outcome is being taken in,
	tell     []func()      // and these are called after that
	beside   int           // and deletes beside it: see express
	caution  int           // Txns until a bold one is sent again
	full     bool          // etcd had no space for the last create
	crowded  chan struct{} // see linger: closed when crowd ops are queued
	crowd    int
	seen     int64 // the highest revision at which a Txn of ours was answered
	released memory
	limited  bool // its user is: see perLease
}

var (
	_ authority.Queuer      = (*Authority)(nil)
	_ authority.Starter     = (*Authority)(nil)
	_ authority.BulkRenewer = (*Authority)(nil)
	_ authority.Lister      = (*Authority)(nil)
	_ authority.Timing      = (*Authority)(nil)
	_ authority.Describer   = (*Authority)(nil)
)

// patience is how long a waiter that is outside of Wait keeps its place.
const patience = 3 * time.Second

// Lateness implements authority.Timing. It is etcd's own (leases are looked at
// twice a second, and when many end at once they are removed at 1,000 a second),
// and what a dead waiter of a living client delays. A change of leader comes on
// top: etcd then counts every lease anew.
func (a *Authority) Lateness() time.Duration { return patience + 2*time.Second }

// Describe implements authority.Describer.
func (a *Authority) Describe() string {
	all := make([]string, len(a.net.members))
	for i, m := range a.net.members {
		all[i] = m.endpoint
	}
	return fmt.Sprintf("etcd %s (keys below %s/)", strings.Join(all, ", "), a.keys.prefix)
}

// enter refuses calls whose context is done, and all after Close.
func (a *Authority) enter(ctx context.Context) error {
	select {
	case <-a.closed:
		return errClosed()
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("etcdlease: nothing was asked: %w", err)
	}
	return nil
}

func errClosed() error { return fmt.Errorf("etcdlease: %w", authority.ErrClosed) }

var errClosedMeanwhile = errors.New("etcdlease: closed before etcd answered; the outcome is not known")

// within waits until done is closed. The outcome is not known when it returns
// an error.
func (a *Authority) within(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return a.o.explain(ctx.Err())
	case <-a.ctx.Done():
		return errClosedMeanwhile
	}
}

// memory remembers the grants that were released last, so that a release whose
// answer was lost can be repeated.
type memory struct {
	at    int
	ring  [512]past
	index map[past]struct{}
}

type past struct {
	name  string
	grant fence.Grant
}

func (m *memory) add(p past) {
	if m.index == nil {
		m.index = map[past]struct{}{}
	}
	delete(m.index, m.ring[m.at])
	m.ring[m.at] = p
	m.index[p] = struct{}{}
	m.at = (m.at + 1) % len(m.ring)
}

func (m *memory) has(p past) bool {
	_, ok := m.index[p]
	return ok
}
