package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// round renews a session, with everything on it: whatever the number of its
// places, it is a keep-alive, a list and a read.
//
// A keep-alive proves the lease and not the keys: somebody may have deleted one
// by hand. So a place is proven only by the list of the lease's keys, asked for
// after the round began. That list comes from whoever takes himself for the
// leader, and so does the answer to the keep-alive. Both count only if they come
// from the member that was elected in a term, and if a linearizable read that was
// sent after them shows that this was still the latest term.
//
// Where the leader is not known, a member that is not asks it on our behalf, and
// may ask one that was deposed. So there a read comes first: what the member has
// applied by then, it knows the leader of.
type round struct {
	done chan struct{}
	sent authority.Instant // of the attempt that succeeded
	err  error
}

var errLeaderChanged = errors.New("the leader changed in between")

// begin starts a round, unless one is under way. a.mu is held.
func (s *session) begin() *round {
	if s.a.ctx.Err() != nil {
		r := &round{done: make(chan struct{}), err: errClosed()}
		close(r.done)
		return r
	}
	if s.round == nil {
		r := &round{done: make(chan struct{})}
		s.round = r
		s.a.group.Go(func() { s.carry(r) })
	}
	return s.round
}

// carry makes attempts, at one member after the other, until one succeeds or
// the lease has ended.
func (s *session) carry(r *round) {
	a := s.a
	timeout := s.patience()
	for try := 1; ; try++ {
		m := a.net.current()
		m.wake()
		ctx, cancel := context.WithTimeout(a.ctx, timeout)
		sent := a.clock.Now()
		err := s.attempt(ctx, m, sent)
		cancel()
		took := a.clock.Now().Sub(sent)
		over := false
		a.mu.Lock()
		switch {
		case err == nil:
			s.pace = took
			over = true
		case a.ctx.Err() != nil:
			over = true
		case errors.Is(err, errLeaseGone):
			s.end(errLeaseGone)
			over = true
		case s.over, a.clock.Now() >= s.alive.Add(s.length):
			s.end(errUnproven)
			err = fmt.Errorf("%w: %w", errUnproven, err)
			over = true
		case definite(err):
			over = true
		}
		if over {
			r.sent, r.err = sent, err
			s.round = nil
			s.nudge()
			close(r.done)
		}
		a.mu.Unlock()
		if over {
			return
		}
		if !errors.Is(err, errLeaderChanged) {
			a.net.suspect(m)
		}
		if try%len(a.net.members) == 0 {
			timeout = min(2*timeout, max(s.longest(), timeout))
		}
		rest(a.ctx, min(10*time.Millisecond*time.Duration(try), 200*time.Millisecond))
	}
}

// patience is how long a member may take for a round: a part of the lease, so
// that others can be asked in time, and more where answers take their time.
func (s *session) patience() time.Duration {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	usual := min(max(s.length/16, 150*time.Millisecond), s.a.o.Timeout*6/10)
	return max(usual, min(3*s.pace, s.longest()))
}

func (s *session) longest() time.Duration {
	if len(s.a.net.members) == 1 {
		return s.length / 2 // there is nobody else to ask
	}
	return s.length / 3
}

// attempt asks one member, and takes what it proves.
func (s *session) attempt(ctx context.Context, m *member, sent authority.Instant) error {
	s.a.mu.Lock()
	revision := s.a.seen
	s.a.mu.Unlock()
	leader, term := s.a.net.leads(m)
	if leader == 0 {
		before, err := m.kv.Get(ctx, s.guard, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		leader, term = before.Header.GetMemberId(), before.Header.GetRaftTerm()
	}
	beats := make(chan error, 1)
	var b beat
	go func() {
		var err error
		b, err = s.pulse.beat(ctx, s.a.ctx, m, s.id)
		beats <- err
	}()
	list, err := m.lease.TimeToLive(ctx, s.id, clientv3.WithAttachedKeys())
	if err2 := <-beats; err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	after, err := m.kv.Get(ctx, s.guard, clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	s.a.net.note(after.Header.GetRaftTerm())
	switch {
	case len(after.Kvs) == 0:
		return errLeaseGone // with all its keys
	case b.ttl <= 0, list.TTL < 0:
		return errors.New("a keep-alive found no lease, a read its key")
	case b.term != term, list.GetRaftTerm() != term, after.Header.GetRaftTerm() != term, list.GetMemberId() != leader, b.member != leader:
		s.a.net.hunt()
		return errLeaderChanged
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.guardStands(s, (*pb.RangeResponse)(after))
	s.proven(sent, revision, list.Keys)
	return nil
}

// proven takes the list of keys that are on the lease. Places that were there
// at revision, before the list was made, and are not on it have been deleted.
// a.mu is held.
func (s *session) proven(sent authority.Instant, revision int64, keys [][]byte) {
	a := s.a
	if s.over {
		return
	}
	s.alive, s.last = sent, sent
	unknown := map[string]struct{}{}
	for _, k := range keys {
		switch p := a.places[string(k)]; {
		case p != nil && p.s == s && p.key == string(k):
			p.proven = sent
		case strings.HasPrefix(string(k), a.keys.locks()):
			unknown[string(k)] = struct{}{}
		}
	}
	if len(keys)-len(unknown)-1 < s.places {
		for _, p := range a.places {
			if p.s == s && p.proven != sent && p.op == nil && p.created != 0 && p.created <= revision && p.phase != creating {
				a.drop(p)
			}
		}
	}
	// A place that nobody knows was made by a request that came twice: with the
	// second list, it has been there for a while.
	for k := range unknown {
		if _, again := s.strange[k]; again {
			a.group.Go(func() { s.sweep(k) })
		}
	}
	s.strange = unknown
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
