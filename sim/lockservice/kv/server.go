// Package kv is a key-value lock service of etcd's kind: keys under leases that
// several of them may share, transactions with guards, keep-alives whose answers
// carry no request's id. Its server is one process: what a majority decides is
// the matter of package lockservice, and what goes wrong here goes wrong between
// the client and the interface.
//
// Session is the client: it drives a protocol.Sharer, which decides.
package kv

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/world"
)

// Server is the lock service's one process.
type Server struct {
	m      *world.Machine
	w      *world.World
	rev    int64
	ids    int
	places []place                  // in the order of their creation
	leases []*lease                 // in the order of their ids
	guards map[string]int           // of each client; looked up only
	holds  map[string]time.Duration // see Hold
	saved  *Server

	// Gateway makes the server keep its clients' leases alive by itself.
	Gateway bool
}

// place is a key: a place in the line of a name.
type place struct {
	name   string
	rev    int64 // that created it
	nonce  string
	holder string
	lease  int
}

// lease is what keys are attached to.
type lease struct {
	id       int
	client   string
	length   time.Duration
	deadline authority.Instant
	alarm    *world.Alarm
}

// NewServer puts a server on a machine.
func NewServer(w *world.World, m *world.Machine) *Server {
	return &Server{m: m, w: w, guards: map[string]int{}, holds: map[string]time.Duration{}}
}

// Machine is where the server runs.
func (s *Server) Machine() *world.Machine { return s.m }

// Revision is the counter of all keys.
func (s *Server) Revision() int64 { return s.rev }

// Use moves the revision on, as other clients' keys do.
func (s *Server) Use(n int) { s.rev += int64(n) }

func (s *Server) log(e world.Event) {
	e.Who = s.m.Name
	s.w.Log.Add(e)
}

// create is one guarded creation of a transaction.
type create struct {
	client, name, nonce, holder string
	guard, lease                int
}

// created is what came of it. Without ok, held is the place that was there; where
// that is missing too, the guard or the lease did not hold.
type created struct {
	ok      bool
	rev     int64
	held    *place
	noLease bool
}

// txn carries out a batch. As in etcd, every comparison is made before the first
// write, and all writes share one revision.
func (s *Server) txn(batch []create) []created {
	results := make([]created, len(batch))
	for i, c := range batch {
		held := s.first(c.name)
		switch {
		case held != nil:
			copied := *held
			results[i].held = &copied
		case s.lease(c.lease) == nil:
			results[i].noLease = true
		case s.guards[c.client] == c.guard:
			results[i].ok = true
		}
	}
	rev := s.rev + 1
	for i, c := range batch {
		if !results[i].ok {
			continue
		}
		s.rev, results[i].rev = rev, rev
		s.places = append(s.places, place{c.name, rev, c.nonce, c.holder, c.lease})
		s.log(world.Event{What: "key-created", Name: c.name, Token: uint64(rev), Rev: uint64(rev), Peer: c.holder, Deadline: s.m.Mono.When(s.lease(c.lease).deadline)})
	}
	return results
}

// first is the place that holds a name.
func (s *Server) first(name string) *place {
	for i := range s.places {
		if s.places[i].name == name {
			return &s.places[i]
		}
	}
	return nil
}

// remove deletes the places that match.
func (s *Server) remove(why string, match func(place) bool) {
	deleted := false
	s.places = slices.DeleteFunc(s.places, func(p place) bool {
		if !match(p) {
			return false
		}
		if !deleted {
			s.rev++
			deleted = true
		}
		s.log(world.Event{What: "key-deleted", Name: p.name, Token: uint64(p.rev), Rev: uint64(s.rev), Why: why})
		return true
	})
}

// delete is a guarded one: only this very place.
func (s *Server) delete(name string, rev int64, nonce, why string) (found bool) {
	s.remove(why, func(p place) bool {
		mine := p.name == name && (p.rev == rev || rev == 0) && (p.nonce == nonce || nonce == "")
		found = found || mine
		return mine
	})
	return found
}

func (s *Server) lease(id int) *lease {
	for _, l := range s.leases {
		if l.id == id {
			return l
		}
	}
	return nil
}

// open makes a lease for a client, and says where its guard stands.
func (s *Server) open(client string, length time.Duration) (lease, guard int) {
	lease = s.grant(client, length)
	if s.Gateway {
		s.keepForEver(lease)
	}
	return lease, s.guards[client]
}

// grant makes a lease.
func (s *Server) grant(client string, length time.Duration) int {
	s.ids++
	l := &lease{id: s.ids, client: client, length: length}
	s.leases = append(s.leases, l)
	s.restart(l)
	return l.id
}

func (s *Server) restart(l *lease) {
	l.deadline = s.m.Mono.Now().Add(l.length)
	l.alarm.Stop()
	l.alarm = s.m.Mono.Alarm(l.deadline, world.OrderTimer, func() { s.revoke(l.id, "expired") })
}

// keepAlive says whether the lease is there, and nothing of its keys.
func (s *Server) keepAlive(id int) bool {
	l := s.lease(id)
	if l == nil {
		return false
	}
	s.restart(l)
	s.log(world.Event{What: "lease-kept", Peer: l.client, Deadline: s.m.Mono.When(l.deadline)})
	return true
}

func (s *Server) revoke(id int, why string) {
	if l := s.lease(id); l != nil {
		l.alarm.Stop()
		s.leases = slices.DeleteFunc(s.leases, func(l *lease) bool { return l.id == id })
		s.remove(why, func(p place) bool { return p.lease == id })
	}
}

// State is what is known of a name.
func (s *Server) State(name string) authority.State {
	st := authority.State{Name: name}
	if p := s.first(name); p != nil {
		st.Held, st.Holder = true, p.holder
		st.Grant = fence.Grant{Token: fence.Token(p.rev), Nonce: p.nonce}
		if l := s.lease(p.lease); l != nil {
			st.Length, st.Left = l.length, max(0, l.deadline.Sub(s.m.Mono.Now()))
		}
	}
	return st
}

// Save takes a backup.
func (s *Server) Save() {
	s.saved = &Server{rev: s.rev, ids: s.ids, places: slices.Clone(s.places), guards: map[string]int{}}
	for _, l := range s.leases {
		s.saved.leases = append(s.saved.leases, &lease{id: l.id, client: l.client, length: l.length})
	}
	s.log(world.Event{What: "saved", Rev: uint64(s.rev)})
}

// Restore starts again from the backup, with the revision moved on. Leases and
// keys are dropped, unless keep says otherwise: then each lease counts anew.
func (s *Server) Restore(bump int, keep bool) {
	if s.saved == nil {
		return
	}
	for _, l := range s.leases {
		l.alarm.Stop()
	}
	s.rev, s.leases, s.places = s.saved.rev+int64(bump), nil, nil
	why := "without a lease and without a key"
	if keep {
		why = "with the leases and the keys of then"
		s.places = slices.Clone(s.saved.places)
		for _, l := range s.saved.leases {
			again := *l
			s.leases = append(s.leases, &again)
			s.restart(&again)
		}
	}
	s.log(world.Event{What: "restored", Rev: uint64(s.rev), Why: why})
}
