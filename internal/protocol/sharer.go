package protocol

import (
	"fmt"
	"slices"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Sharer is the client of a lock service whose keys lie under leases that many of
// them may share, as in etcd: all locks of a process lie under one lease, and one
// keep-alive renews them all. It hears the requests of the process's holders (Ask:
// acquire, renew, release) and answers them (Reply). It is not safe for concurrent
// use.
//
// A request that gets no answer here has none: who asked has a time-out of its own.
type Sharer struct {
	cfg   SharerConfig
	now   Instant
	out   []Effect
	alarm alarm
	n     int

	lease   int64   // 0: none
	base    Instant // when the last proven keep-alive was sent
	guard   int64
	opening int     // the number of an OpenLease under way; 0: none
	asked   Instant // when it was sent
	opened  timer   // when another one is sent

	waiting []want
	flight  *flight
	locks   []*sharedLock
	drops   []*drop

	round  *round
	next   []Ask // renewals for the next round
	rounds int
}

// want is a create that somebody waits for.
type want struct {
	id  uint64
	key NewKey
}

// flight is the transaction that is under way; there is one at a time.
type flight struct {
	first int // its try; those that settle it are later ones
	lease int64
	batch []want
	sent  Instant
	limit Instant
}

// sharedLock is a lock that this client holds.
type sharedLock struct {
	key  LeaseKey
	from Instant // its own lease counts from here
}

// drop is a key that has to go. It is tried again until it is surely gone, whoever
// has asked for that.
type drop struct {
	try  int // one number for all of them
	ask  Ask // the release that has asked for it, if one has
	key  LeaseKey
	next Instant // when to try again
}

// NewSharer makes a machine without a lease.
func NewSharer(cfg SharerConfig) *Sharer { return &Sharer{cfg: cfg} }

// Step is told the time and an event, and returns what is to be done, in order.
func (s *Sharer) Step(now Instant, ev Event) []Effect {
	s.now = now
	switch ev := ev.(type) {
	case Ask:
		s.ask(ev)
	case TurnOver:
		s.flush()
		s.keep()
	case LeaseOpened:
		s.leaseOpened(ev)
	case KeysCreated:
		s.created(ev)
	case LeaseKept:
		s.kept(ev)
	case KeyDropped:
		s.dropped(ev)
	case Tick:
		s.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	s.due()
	if e, news := s.alarm.want(s.soonest()); news {
		s.emit(e)
	}
	out := s.out
	s.out = nil
	return out
}

// Lease is the shared lease; 0 while there is none.
func (s *Sharer) Lease() int64 { return s.lease }

// Locks is how many locks lie under it, as far as this client knows.
func (s *Sharer) Locks() int { return len(s.locks) }

func (s *Sharer) emit(e Effect) { s.out = append(s.out, e) }

func (s *Sharer) off(r SharerRules) bool { return s.cfg.Without&r != 0 }

func (s *Sharer) try() int {
	s.n++
	return s.n
}

func (s *Sharer) ask(a Ask) {
	switch a.Op {
	case OpAcquire:
		s.waiting = append(s.waiting, want{a.ID, NewKey{Name: a.Name, Nonce: a.Nonce, Holder: a.Holder}})
		s.emit(Yield{})
	case OpRenew:
		s.next = append(s.next, a)
		s.emit(Yield{})
	case OpRelease:
		key := LeaseKey{a.Name, a.Grant}
		s.forget(key)
		s.drop(&drop{key: key, ask: a})
	default:
		s.emit(Reply{ID: a.ID, Op: a.Op, Err: authority.ErrInvalid})
	}
}

// due does what the time asks for.
func (s *Sharer) due() {
	s.lapse()
	for _, d := range s.drops {
		if s.now >= d.next {
			s.sendDrop(d)
		}
	}
	if s.flight != nil && s.now >= s.flight.limit {
		s.settle()
	}
	if s.opening != 0 && s.opened.due(s.now) {
		s.opening = 0
		s.opened.off()
		s.flush()
	}
	if s.round != nil && s.now >= s.round.limit && !s.off(ShareOneRound) {
		s.round = nil // its stream ends, and what still comes on that is not heard
		s.keep()
	}
}

func (s *Sharer) soonest() timer {
	at := s.opened
	for _, d := range s.drops {
		at.sooner(d.next)
	}
	if s.flight != nil {
		at.sooner(s.flight.limit)
	}
	if s.round != nil && !s.off(ShareOneRound) {
		at.sooner(s.round.limit)
	}
	if !s.off(ShareOwnTime) {
		for _, l := range s.locks {
			at.sooner(s.end(l))
		}
	}
	return at
}

// end is when a lock is over by itself: the shared lease, which others keep alive,
// would hold it for ever.
func (s *Sharer) end(l *sharedLock) Instant {
	d := s.cfg.Length
	if s.off(ShareWorkReturn) {
		d -= s.cfg.Margin
	}
	return l.from.Add(d)
}

// lapse deletes the locks that were not renewed in time.
func (s *Sharer) lapse() {
	if s.off(ShareOwnTime) {
		return
	}
	var over []*sharedLock
	s.locks = slices.DeleteFunc(s.locks, func(l *sharedLock) bool {
		if s.now >= s.end(l) {
			over = append(over, l)
			return true
		}
		return false
	})
	for _, l := range over {
		s.drop(&drop{key: l.key})
	}
}

func (s *Sharer) drop(d *drop) {
	d.try = s.try()
	s.drops = append(s.drops, d)
	s.sendDrop(d)
}

func (s *Sharer) sendDrop(d *drop) {
	d.next = s.now.Add(s.cfg.Timeout)
	s.emit(DropKey{Try: d.try, Key: d.key, Lapse: d.ask.Op == 0})
}

func (s *Sharer) dropped(ev KeyDropped) {
	i := slices.IndexFunc(s.drops, func(d *drop) bool { return d.try == ev.Try })
	if i < 0 {
		return
	}
	a := s.drops[i].ask
	s.drops = slices.Delete(s.drops, i, i+1)
	if a.Op == 0 {
		return
	}
	r := Reply{ID: a.ID, Op: OpRelease}
	if !ev.Found {
		r.Err = notHeldAny(a)
	}
	s.emit(r)
}

func notHeldAny(a Ask) error {
	return &authority.NotHeldError{Grant: a.Grant, State: authority.State{Name: a.Name}}
}

func (s *Sharer) lock(key LeaseKey) *sharedLock {
	for _, l := range s.locks {
		if l.key == key {
			return l
		}
	}
	return nil
}

func (s *Sharer) forget(key LeaseKey) {
	s.locks = slices.DeleteFunc(s.locks, func(l *sharedLock) bool { return l.key == key })
}

func (s *Sharer) grantOf(l *sharedLock) authority.Grant {
	return authority.Grant{Grant: l.key.Grant, Name: l.key.Name, Length: s.cfg.Length, From: l.from}
}

// hold notes a lock: it counts from when the shared lease was proven last, at the
// latest from when its create was sent.
func (s *Sharer) hold(w want, t fence.Token, sent Instant) {
	l := &sharedLock{LeaseKey{w.key.Name, fence.Grant{Token: t, Nonce: w.key.Nonce}}, min(sent, s.base)}
	s.locks = append(s.locks, l)
	s.emit(Reply{ID: w.id, Op: OpAcquire, Grant: s.grantOf(l)})
}

// idle says that no lock has kept the lease alive for a while: what is left of it
// would be too short for a new lock.
func (s *Sharer) idle() bool {
	return len(s.locks) == 0 && s.now.Sub(s.base) > s.cfg.Length/4
}
