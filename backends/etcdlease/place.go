package etcdlease

import (
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// place is one of this client's own places in the line of a name: of somebody
// who waits, or of a holder. There may be many thousands.
type place struct {
	name   string
	key    string // in etcd
	nonce  string // of its grant
	waiter string // whose it is; empty: of a try that would not wait
	s      *session

	op       *op // what is under way for it; nil: nothing
	phase    phase
	unwanted bool // created for somebody who has gone since

	created int64             // revision
	token   int64             // revision of its last change
	proven  authority.Instant // the send time of the last keep-alive that an answer has proven for it
	from    authority.Instant // from when its lease counts, as its holder was told
	*queuing
}

// queuing is what only those need who wait.
type queuing struct {
	ahead     int   // places before it
	uncounted bool  // ahead is not known yet
	asOf      int64 // revision to which ahead is right
	floor     int64 // the highest token that was ahead
	waits     int   // calls to Wait under way
	heard     authority.Instant
	turn      chan struct{} // closed when it is worthwhile to try again
}

type phase uint8

const (
	creating phase = iota // its create has not been answered
	inLine                // there; nobody was told that it holds
	held                  // its grant was told
	removing              // its delete is under way, until it is definite
	gone
)

type wait struct{ name, waiter string }

func (p *place) grant() authority.Grant {
	return authority.Grant{Grant: fence.Grant{Token: fence.Token(p.token), Nonce: p.nonce}, Name: p.name, Length: p.s.length, From: p.from}
}

// deadline is when the holder must have stopped, unless it renews: the lock's
// own end inside the shared lease.
func (p *place) deadline() authority.Instant { return max(p.from, p.s.touched).Add(p.s.length) }

// first reports whether nobody is ahead.
func (p *place) first() bool { return p.queuing == nil || p.ahead == 0 }

// wake tells those in Wait to look again.
func (p *place) wake() {
	if p.queuing != nil && p.turn != nil {
		close(p.turn)
		p.turn = nil
	}
}

// turns returns what is closed at the next wake.
func (p *place) turns() <-chan struct{} {
	if p.turn == nil {
		p.turn = make(chan struct{})
	}
	return p.turn
}

// find returns the place of a request. a.mu is held.
func (a *Authority) find(r authority.Request) *place {
	if p := a.places[a.keys.place(r.Name, r.Nonce)]; p != nil {
		return p
	}
	if r.Waiter == "" {
		return nil
	}
	return a.waiting[wait{r.Name, r.Waiter}]
}

// add makes a place for a request. a.mu is held.
func (a *Authority) add(r authority.Request, s *session) *place {
	key := a.keys.place(r.Name, r.Nonce)
	p := &place{name: r.Name, key: key, nonce: key[len(key)-len(r.Nonce):], waiter: r.Waiter, s: s}
	if r.Waiter != "" {
		p.queuing = &queuing{heard: a.clock.Now()}
		a.waiting[wait{r.Name, r.Waiter}] = p
	}
	a.places[key] = p
	s.places++
	return p
}

// drop forgets a place that surely is not there any more. a.mu is held.
func (a *Authority) drop(p *place) {
	if p.phase == gone {
		return
	}
	p.phase = gone
	p.s.places--
	a.leaveLine(p)
	for _, key := range []string{p.key, a.keys.place(p.name, p.nonce)} {
		if a.places[key] == p {
			delete(a.places, key)
		}
	}
	if w := (wait{p.name, p.waiter}); a.waiting[w] == p {
		delete(a.waiting, w)
	}
	p.wake()
}

// remove begins the guarded delete of a place, which goes on until it is
// definite. a.mu is held.
func (a *Authority) remove(p *place, kind opKind) *op {
	if p.op != nil && (p.phase == removing || p.phase == creating) {
		return p.op
	}
	p.phase = removing
	a.leaveLine(p)
	p.wake()
	return a.enqueue(&op{kind: kind, p: p})
}
