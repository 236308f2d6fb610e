package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// round renews a session, with everything on it: whatever the number of its
// places, it is a keep-alive and one or two more requests. See attempt.
type round struct {
	done chan struct{}
	err  error
}

var errLeaderChanged = errors.New("the leader changed in between")

// begin starts a round, unless one is under way, and those of the other sessions
// of its length with it: who renews all leases waits once. a.mu is held.
func (s *session) begin() *round {
	if s.a.ctx.Err() != nil {
		r := &round{done: make(chan struct{}), err: errClosed()}
		close(r.done)
		return r
	}
	if s.round == nil {
		s.beginAlone()
		for _, other := range s.a.current[s.length] {
			if _, open := s.a.all[other]; open && other.round == nil {
				other.beginAlone()
			}
		}
	}
	return s.round
}

func (s *session) beginAlone() {
	r := &round{done: make(chan struct{})}
	s.round = r
	s.a.group.Go(func() { s.carry(r) })
}

// trial is one attempt at one member.
type trial struct {
	n    int
	m    *member
	sent authority.Instant
	err  error
}

// carry makes attempts until one succeeds or the lease has ended. A member that
// does not answer soon may be slow or gone. So it is not given up: another one
// is asked beside it (the same, if there is no other), and the first proof counts.
func (s *session) carry(r *round) {
	a := s.a
	ctx, cancel := context.WithCancel(a.ctx)
	var flying sync.WaitGroup
	defer flying.Wait()
	defer cancel()
	came := make(chan trial)
	last := errors.New("no server has answered")
	for n := 1; ; n++ {
		t := trial{n: n, m: a.net.current(), sent: a.clock.Now()}
		t.m.wake()
		flying.Go(func() {
			t.err = s.attempt(ctx, t.m, t.sent)
			select {
			case came <- t:
			case <-ctx.Done():
			}
		})
		for next := time.NewTimer(s.patience(n)); next != nil; {
			select {
			case t := <-came:
				if s.settled(r, t) {
					return
				}
				last = t.err
				if !errors.Is(t.err, errLeaderChanged) {
					a.net.suspect(t.m)
				}
				if t.n == n {
					next.Reset(min(10*time.Millisecond*time.Duration(n), 200*time.Millisecond))
				}
			case <-next.C:
				next = nil
			case <-ctx.Done():
				next = nil
			}
		}
		if s.outlived(r, last) {
			return
		}
		a.net.suspect(t.m)
	}
}

// settled takes the outcome of an attempt, and reports whether it ends the round.
func (s *session) settled(r *round, t trial) bool {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	switch {
	case t.err == nil:
		s.pace = s.a.clock.Now().Sub(t.sent)
	case errors.Is(t.err, errLeaseGone):
		s.end(errLeaseGone)
	case !definite(t.err):
		return false
	}
	s.finish(r, t.err)
	return true
}

// outlived ends the round if the lease has ended, or the authority.
func (s *session) outlived(r *round, last error) bool {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	switch {
	case s.a.ctx.Err() != nil:
		s.finish(r, errClosed())
	case s.over, s.a.clock.Now() >= s.alive.Add(s.length):
		s.end(errUnproven)
		s.finish(r, fmt.Errorf("%w: %w", errUnproven, last))
	default:
		return false
	}
	return true
}

// finish tells of the round's end. a.mu is held.
func (s *session) finish(r *round, err error) {
	r.err = err
	s.round = nil
	s.nudge()
	close(r.done)
}

// patience is for how long the nth attempt of a round is waited for before
// another is made: a small part of the lease, or what the way was seen to take,
// and longer with each turn through the members.
func (s *session) patience(n int) time.Duration {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	usual := min(max(s.length/16, 150*time.Millisecond), s.a.o.Timeout*6/10)
	turns := min((n-1)/len(s.a.net.members), 10)
	wait := min(max(usual, s.pace*3/2)<<turns, s.length/4)
	return max(min(wait, s.alive.Add(s.length).Sub(s.a.clock.Now())), time.Millisecond)
}

// sweep deletes a key on the lease that is nobody's place.
func (s *session) sweep(key string) {
	a := s.a
	_ = a.net.do(a.ctx, func(ctx context.Context, m *member) error {
		r, err := m.kv.Get(ctx, key)
		if err != nil || len(r.Kvs) == 0 || r.Kvs[0].Lease != int64(s.id) {
			return err
		}
		a.mu.Lock()
		_, known := a.places[key]
		a.mu.Unlock()
		if known {
			return nil
		}
		return removeAt(ctx, m, key, r.Kvs[0].ModRevision)
	})
}

// exorcise deletes a key as it was at a revision.
func (s *session) exorcise(key string, revision int64) {
	_ = s.a.net.do(s.a.ctx, func(ctx context.Context, m *member) error { return removeAt(ctx, m, key, revision) })
}

func removeAt(ctx context.Context, m *member, key string, revision int64) error {
	same := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
	_, err := m.kv.Txn(ctx).If(same).Then(clientv3.OpDelete(key)).Commit()
	return err
}
