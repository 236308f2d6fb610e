package protocol

import (
	"slices"

	"github.com/stint-dev/stint/authority"
)

// flush sends what waits, in one transaction. A name stands in it once: all its
// comparisons are made before its first write, and two creates of one name would
// both find it free, with one revision.
func (s *Sharer) flush() {
	switch {
	case s.flight != nil || s.opening != 0 || len(s.waiting) == 0:
		return
	case s.lease == 0 || s.idle():
		s.lease = 0 // it runs out by itself, and nothing lies under it
		s.open()
		return
	}
	f := &flight{first: s.try(), lease: s.lease, sent: s.now, limit: s.now.Add(s.cfg.Timeout)}
	var names []string
	s.waiting = slices.DeleteFunc(s.waiting, func(w want) bool {
		if slices.Contains(names, w.key.Name) && !s.off(ShareOneCreate) {
			return false // its turn is the next transaction
		}
		names = append(names, w.key.Name)
		f.batch = append(f.batch, w)
		return true
	})
	s.flight = f
	s.emit(CreateKeys{Try: f.first, Lease: s.lease, Guard: s.guard, Keys: f.keys()})
}

func (f *flight) keys() []NewKey {
	var all []NewKey
	for _, w := range f.batch {
		all = append(all, w.key)
	}
	return all
}

// open asks for a lease until there is one.
func (s *Sharer) open() {
	s.opening = s.try()
	s.asked = s.now
	s.opened.set(s.now.Add(s.cfg.Timeout))
	s.emit(OpenLease{s.opening})
}

func (s *Sharer) leaseOpened(ev LeaseOpened) {
	if ev.Try != s.opening || s.opening == 0 {
		return // it runs out by itself
	}
	s.opening = 0
	s.opened.off()
	s.lease, s.base, s.guard = ev.Lease, s.asked, max(s.guard, ev.Guard)
	s.flush()
}

// settle finds out what became of a transaction without an answer: a higher guard
// makes sure that it is not carried out any more, and then a read says whether it
// was. A read alone says nothing: the transaction may still be on its way.
func (s *Sharer) settle() {
	f := s.flight
	if !s.off(ShareGuard) {
		s.guard++
	}
	f.limit = s.now.Add(s.cfg.Timeout)
	s.emit(SettleKeys{Try: s.try(), Guard: s.guard, Keys: f.keys()})
}

// created takes a transaction's answer, unless it was settled before.
func (s *Sharer) created(ev KeysCreated) {
	f := s.flight
	if f == nil || ev.Try < f.first || len(ev.Results) != len(f.batch) {
		return
	}
	s.flight = nil
	for i, w := range f.batch {
		s.result(f, w, ev.Results[i])
	}
	s.flush()
}

func (s *Sharer) result(f *flight, w want, r KeyResult) {
	reply := Reply{ID: w.id, Op: OpAcquire}
	switch {
	case r.Created, r.Held.Held && r.Held.Grant.Nonce == w.key.Nonce: // the second, where the network brought two
		s.hold(w, max(r.Token, r.Held.Grant.Token), f.sent)
		return
	case r.Held.Held:
		reply.Err = &authority.HeldError{State: r.Held}
	default:
		if r.NoLease && s.lease == f.lease { // lost: never to be renewed again
			s.lease = 0
		}
		reply.Err = ErrNotCreated
	}
	s.emit(reply)
}
