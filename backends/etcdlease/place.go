package etcdlease

import (
	"math/rand/v2"
	"strconv"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// place is one of this client's own places in the line of a name: of somebody
// who waits, or of a holder. There may be many thousands.
type place struct {
	name   string
	key    string // in etcd; see freeKey
	nonce  string // of its grant
	waiter string // whose it is; empty: of a try that would not wait
	s      *session

	op       *op // what is under way for it; nil: nothing
	phase    phase
	unwanted bool  // created for somebody who has gone since
	at       int32 // in s.places

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

type nonce struct{ name, nonce string }

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
	if p := a.nonces[nonce{r.Name, r.Nonce}]; p != nil {
		return p
	}
	if r.Waiter == "" {
		return nil
	}
	return a.waiting[wait{r.Name, r.Waiter}]
}

// freeKey finds a key of a name for a place of this client. Keys are used again
// and again, since etcd keeps a trace of each until it is compacted, and walks
// over all traces of a name when it looks for who is in line. A key is free when
// the place before surely has gone. a.mu is held.
func (a *Authority) freeKey(name string, s *session) string {
	key := a.keys.place(name, s.client)
	for n := uint32(8); a.places[key] != nil || s.haunted[key]; n += n/4 + 1 {
		key = a.keys.place(name, s.client+"."+strconv.Itoa(int(rand.Uint32N(n))))
	}
	return key
}

// haunt notes that a key is there which should be free: its create came twice,
// and once too late. It is deleted and not used again. a.mu is held.
func (s *session) haunt(key string, revision int64) {
	if s.haunted == nil {
		s.haunted = map[string]bool{}
	}
	s.haunted[key] = true
	s.a.group.Go(func() { s.exorcise(key, revision) })
}

// add makes a place for a request. a.mu is held.
func (a *Authority) add(r authority.Request, s *session) *place {
	p := &place{name: r.Name, key: a.freeKey(r.Name, s), nonce: r.Nonce, waiter: r.Waiter, s: s}
	if r.Waiter != "" {
		p.queuing = &queuing{heard: a.clock.Now()}
		a.waiting[wait{r.Name, r.Waiter}] = p
	}
	a.places[p.key] = p
	a.nonces[nonce{p.name, p.nonce}] = p
	p.at = int32(len(s.places))
	s.places = append(s.places, p)
	return p
}

// drop forgets a place that surely is not there any more. a.mu is held.
func (a *Authority) drop(p *place) {
	if p.phase == gone {
		return
	}
	p.phase = gone
	p.s.disown(p)
	a.leaveLine(p)
	if a.places[p.key] == p {
		delete(a.places, p.key)
	}
	if n := (nonce{p.name, p.nonce}); a.nonces[n] == p {
		delete(a.nonces, n)
	}
	if w := (wait{p.name, p.waiter}); a.waiting[w] == p {
		delete(a.waiting, w)
	}
	p.wake()
}

// remove begins the guarded delete of a place, which goes on until it is
// definite. a.mu is held.
func (a *Authority) remove(p *place, kind opKind) *op {
	o, begun := a.removal(p, kind)
	if !begun {
		a.enqueue(o)
	}
	return o
}

// removal returns the op of a guarded delete, and whether it has begun. a.mu is
// held.
func (a *Authority) removal(p *place, kind opKind) (o *op, begun bool) {
	if p.op != nil && (p.phase == removing || p.phase == creating) {
		return p.op, true
	}
	p.phase = removing
	a.leaveLine(p)
	p.wake()
	return &op{kind: kind, p: p}, false
}
