package etcdlease

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// fewPlaces is up to how many places are proven by reading them.
const fewPlaces = 60

// attempt asks one member, and takes what it proves.
//
// A keep-alive proves the lease and not the keys: somebody may have deleted one
// by hand. So a place is proven only by an answer that still shows its key, asked
// for after the round began. And whoever answers a keep-alive only takes himself
// for the leader, and may have been deposed: the term of its answer tells. That
// is the term of the last entry which that member had applied before it renewed,
// and it has heard of the term's leader by then.
func (s *session) attempt(ctx context.Context, m *member, sent authority.Instant) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w := s.few(); w != nil {
		return s.readPlaces(ctx, m, sent, w)
	}
	return s.listPlaces(ctx, m, sent)
}

// wanted is what is known of a place when it is read.
type wanted struct {
	p       *place
	created int64
}

// few lists the places, or returns nil if they are many.
func (s *session) few() []wanted {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	// Where a length has several sessions, they have many places together.
	if len(s.places) > fewPlaces || len(s.a.current[s.length]) > 1 {
		return nil
	}
	w := make([]wanted, 0, len(s.places))
	for _, p := range s.places {
		if p.created != 0 && p.phase != creating {
			w = append(w, wanted{p, p.created})
		}
	}
	return w
}

// readPlaces sends a keep-alive and one linearizable read of the guard and the
// places at once; so it takes one way there and back.
//
// The read was confirmed in some term by most of the members after it was sent.
// If it was answered in a later term than the keep-alive, that proves nothing.
// Otherwise the keep-alive was carried out in the read's term or a later one, and
// every leader after that was elected after the read was sent, and began the
// lease anew. So whichever came first, the lease lasts for its length from then.
func (s *session) readPlaces(ctx context.Context, m *member, sent authority.Instant, w []wanted) error {
	gets := make([]clientv3.Op, 1, len(w)+1)
	gets[0] = clientv3.OpGet(s.guard, clientv3.WithKeysOnly())
	for _, one := range w {
		gets = append(gets, clientv3.OpGet(one.p.key, clientv3.WithKeysOnly()))
	}
	var read *clientv3.TxnResponse
	b, err := s.beside(ctx, m, func(ctx context.Context) (err error) {
		read, err = m.kv.Txn(ctx).Then(gets...).Commit()
		return err
	})
	if err != nil {
		return err
	}
	s.a.net.note(read.Header.GetRaftTerm())
	guard := read.Responses[0].GetResponseRange()
	switch {
	case len(guard.Kvs) == 0:
		return errLeaseGone // with all its keys
	case b.ttl <= 0:
		return errNoLease
	case b.term < read.Header.GetRaftTerm():
		s.a.net.hunt()
		return errLeaderChanged
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.guardStands(s, guard)
	s.seen(sent, w, read.Responses[1:])
	s.audit(m)
	return nil
}

// listPlaces is for many places: the keep-alive, the list of the lease's keys
// beside it, and then a read. The list comes from whoever takes himself for the
// leader, so here everything must come from the member that was elected in a
// term, and the read, sent after the list, must show that this was still the
// latest: who was elected just now may not know yet what was committed before.
//
// Where the leader is not known, a member that is not asks it on our behalf, and
// may ask one that was deposed. So there a read comes first: what the member has
// applied by then, it knows the leader of.
func (s *session) listPlaces(ctx context.Context, m *member, sent authority.Instant) error {
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
	var list *clientv3.LeaseTimeToLiveResponse
	b, err := s.beside(ctx, m, func(ctx context.Context) (err error) {
		list, err = m.lease.TimeToLive(ctx, s.id, clientv3.WithAttachedKeys())
		return err
	})
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
		return errLeaseGone
	case b.ttl <= 0, list.TTL < 0:
		return errNoLease
	case b.term != term, list.GetRaftTerm() != term, after.Header.GetRaftTerm() != term, list.GetMemberId() != leader, b.member != leader:
		s.a.net.hunt()
		return errLeaderChanged
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.guardStands(s, (*pb.RangeResponse)(after))
	s.listed(sent, revision, list.Keys)
	return nil
}

var errNoLease = errors.New("a keep-alive found no lease, a read its key")

// beside sends a keep-alive while f asks something else. If one of them fails,
// the other is given up.
func (s *session) beside(ctx context.Context, m *member, f func(context.Context) error) (beat, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var b beat
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if b, err = s.beat(ctx, m); err != nil {
			cancel(err)
		}
	}()
	if err := f(ctx); err != nil {
		cancel(err) // the first one is the cause
	}
	<-done
	return b, context.Cause(ctx)
}
