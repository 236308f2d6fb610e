package protocol

import "slices"

// round is a keep-alive of the shared lease, and a read of the keys under it,
// that was sent with it or later. It renews every lock that asked before.
type round struct {
	n     int
	lease int64
	sent  Instant
	limit Instant
	who   []Ask
}

// keep begins a round. Answers carry no request's id, so one is under way at a
// time: what comes meanwhile waits for the next.
func (s *Sharer) keep() {
	if len(s.next) == 0 || s.round != nil && !s.off(ShareOneRound) {
		return
	}
	s.rounds++
	r := &round{n: s.rounds, lease: s.lease, sent: s.now, limit: s.now.Add(s.cfg.Timeout), who: s.next}
	if s.round != nil { // they overlap, and nobody can tell their answers apart
		r.who = append(s.round.who, r.who...)
	}
	s.next, s.round = nil, r
	s.emit(KeepLease{Round: r.n, Lease: r.lease})
}

// kept takes a round's answer. An answered keep-alive proves the lease; a lock is
// proven by its key.
func (s *Sharer) kept(ev LeaseKept) {
	r := s.round
	if r == nil || r.n != ev.Round && !s.off(ShareOneRound) {
		return
	}
	s.round = nil
	if !ev.Alive {
		if s.lease == r.lease { // never to be renewed again
			s.lease = 0
		}
	} else if s.lease == r.lease {
		s.base = max(s.base, r.sent)
	}
	for _, a := range r.who {
		key := LeaseKey{a.Name, a.Grant}
		l := s.lock(key)
		if l == nil || !ev.Alive || !slices.Contains(ev.Keys, key) && !s.off(ShareProof) {
			s.forget(key)
			s.emit(Reply{ID: a.ID, Op: OpRenew, Err: notHeldAny(a)})
			continue
		}
		l.from = max(l.from, r.sent)
		s.emit(Reply{ID: a.ID, Op: OpRenew, Grant: s.grantOf(l)})
	}
	s.unknown(ev.Keys)
	s.keep()
}

// unknown deletes the keys under the lease that nobody here knows. A create that
// was answered is a lock or was one, and one without an answer is under way: what
// is left came from where nobody waits for it any more.
func (s *Sharer) unknown(keys []LeaseKey) {
	if s.off(ShareUnknown) {
		return
	}
	for _, key := range keys {
		if s.lock(key) == nil && !s.begun(key) {
			s.drop(&drop{key: key})
		}
	}
}

// begun says whether a key is being created, or deleted.
func (s *Sharer) begun(key LeaseKey) bool {
	if s.flight != nil && slices.ContainsFunc(s.flight.batch, func(w want) bool { return w.key.Nonce == key.Grant.Nonce }) {
		return true
	}
	return slices.ContainsFunc(s.drops, func(d *drop) bool { return d.key == key })
}
