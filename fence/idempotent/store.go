package idempotent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stint-dev/stint/fence"
)

// Store keeps records beside the fence. Its methods are safe for concurrent use;
// each makes one try and ends with its context.
type Store interface {
	// Get reads a record, with all that was written before. The zero Record: there
	// is none.
	Get(ctx context.Context, key string) (Record, error)
	// Set writes now, in one atomic step with two checks: the fence admits the claim
	// (it never raises), and the record is was. A record that is now already counts
	// as written. A zero was creates the record, a zero now deletes it. Definite
	// errors are fence.ErrChanged for a record that is another, and those of the
	// fence; after any other, it may have been written.
	Set(ctx context.Context, c fence.Claim, key string, was, now Record) error
	// List gives the records that are PENDING or UNKNOWN, in the order of the keys.
	List(ctx context.Context) ([]Listed, error)
}

// Listed is a record with its key.
type Listed struct {
	Key string
	Record
}

// Memory is a Store in the memory of one process, over a fence in memory. Both
// forget everything at a restart: for tests.
type Memory struct {
	fence *fence.Memory
	mu    sync.Mutex
	all   map[string]Record
}

// NewMemory makes an empty Memory.
func NewMemory(f *fence.Memory) *Memory { return &Memory{fence: f, all: map[string]Record{}} }

// Get is Store's.
func (m *Memory) Get(ctx context.Context, key string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key], context.Cause(ctx)
}

// Set is Store's.
func (m *Memory) Set(ctx context.Context, c fence.Claim, key string, was, now Record) error {
	c.Seq = nil
	err := m.fence.Do(ctx, c, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch m.all[key] {
		case now:
		case was:
			if m.all[key] = now; now == (Record{}) {
				delete(m.all, key)
			}
		default:
			return changed(key, was, m.all[key])
		}
		return errUncounted
	})
	if err == errUncounted {
		return nil
	}
	return err
}

// errUncounted is a write's success: after an error, the fence does not count it
// among the transactions of the caller's claim.
var errUncounted = errors.New("written")

// List is Store's.
func (m *Memory) List(ctx context.Context) ([]Listed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Listed
	for _, key := range slices.Sorted(maps.Keys(m.all)) {
		if r := m.all[key]; r.State != Done {
			all = append(all, Listed{key, r})
		}
	}
	return all, context.Cause(ctx)
}

func changed(key string, was, is Record) error {
	return fmt.Errorf("idempotent: %q: %w: seen %s, now %s. Nothing was written", key, fence.ErrChanged, was, is)
}

// String is for people.
func (r Record) String() string {
	if r.State == None {
		return "no record"
	}
	return fmt.Sprintf("%s by %v", r.State, r.Grant)
}

// Resolve is for the person who found out what became of an effect that is PENDING
// or UNKNOWN: happened, with what the remote side said; or not, and then the record
// is deleted, so that the next Do begins anew. It is written under a claim as all
// else: take the lease, raise, resolve. A record that is DONE already, or that is
// not there, is left alone: the error matches fence.ErrChanged.
func Resolve(ctx context.Context, s Store, c fence.Claim, key string, happened bool, result string) error {
	was, err := s.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("idempotent: resolve %q: nothing was written: %w", key, err)
	}
	if was.State != Pending && was.State != Unknown {
		return fmt.Errorf("idempotent: resolve %q: %w: it is %s, where PENDING or UNKNOWN was expected. Nothing was written", key, fence.ErrChanged, was)
	}
	return settle(ctx, s, c, key, was, happened, result)
}

func settle(ctx context.Context, s Store, c fence.Claim, key string, was Record, happened bool, result string) error {
	var now Record
	if happened {
		now = Record{State: Done, Grant: c.Grant, Nonce: newNonce(), Result: clean(result)}
	}
	if err := s.Set(ctx, c, key, was, now); err != nil {
		if definite(err) {
			return err
		}
		return fmt.Errorf("idempotent: %q: %w: the record may have been written or not; repeating it is harmless: %w", key, fence.ErrUnknown, err)
	}
	return nil
}

// definite errors say that nothing was written.
func definite(err error) bool {
	for _, target := range []error{fence.ErrChanged, fence.ErrStale, fence.ErrRepeated, fence.ErrNoFence, fence.ErrNotRaised} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
