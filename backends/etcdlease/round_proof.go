package etcdlease

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// renewed takes a proof of the lease itself. An earlier attempt may be answered
// after a later one. a.mu is held.
func (s *session) renewed(sent authority.Instant) {
	s.alive, s.last = max(s.alive, sent), max(s.last, sent)
}

// seen takes what a read shows of places that were there before it was sent. A
// key that has not changed since this client's own last change is on its lease.
// (A read of keys alone does not say on which lease they are.) One that is not
// there any more, or was changed by somebody else, has been taken away. a.mu is
// held.
func (s *session) seen(sent authority.Instant, w []wanted, answers []*pb.ResponseOp) {
	if s.over {
		return
	}
	s.renewed(sent)
	for i, one := range w {
		p, kvs := one.p, answers[i].GetResponseRange().Kvs
		switch {
		case p.phase == gone || p.created != one.created:
			// Something else has happened to it meanwhile.
		case len(kvs) == 1 && kvs[0].CreateRevision == p.created && kvs[0].ModRevision <= p.token:
			p.proven = max(p.proven, sent)
		case p.op == nil: // else that will tell
			s.a.drop(p)
		}
	}
}

// listed takes the list of keys that are on the lease. Places that were there
// at revision, before the list was made, and are not on it have been deleted.
// a.mu is held.
func (s *session) listed(sent authority.Instant, revision int64, keys [][]byte) {
	a := s.a
	if s.over {
		return
	}
	s.renewed(sent)
	there := 0
	s.strangers(keys, func(p *place) {
		there++
		p.proven = max(p.proven, sent)
	})
	if there >= len(s.places) {
		return
	}
	for _, p := range slices.Backward(s.places) { // drop takes it out
		// What was proven at sent, or by a later list, is there.
		if p.proven < sent && p.op == nil && p.created != 0 && p.created <= revision && p.phase != creating {
			a.drop(p)
		}
	}
}

// strangers looks for keys that are nobody's place: each was made by a request
// that came twice. With the second list, it has been there for a while, and is
// deleted. a.mu is held.
func (s *session) strangers(keys [][]byte, known func(*place)) {
	a := s.a
	unknown := map[string]struct{}{}
	for _, k := range keys {
		switch p := a.places[string(k)]; {
		case p != nil && p.s == s:
			known(p)
		case strings.HasPrefix(string(k), a.keys.locks()):
			unknown[string(k)] = struct{}{}
		}
	}
	for k := range unknown {
		if _, again := s.strange[k]; again {
			a.group.Go(func() { s.sweep(k) })
		}
	}
	s.strange = unknown
}

// auditEach is after how many rounds without a list one is asked for.
const auditEach = 8

// audit lists the lease's keys from time to time, to find strangers. It proves
// nothing, so nobody waits for it. a.mu is held.
func (s *session) audit(m *member) {
	if s.audits++; s.listing || s.audits%auditEach != 1 && len(s.strange) == 0 {
		return
	}
	s.listing = true
	s.a.group.Go(func() {
		ctx, cancel := context.WithTimeout(s.a.ctx, s.length)
		defer cancel()
		list, err := m.lease.TimeToLive(ctx, s.id, clientv3.WithAttachedKeys())
		s.a.mu.Lock()
		defer s.a.mu.Unlock()
		s.listing = false
		if err == nil {
			s.strangers(list.Keys, func(*place) {})
		}
	})
}
