package protocol

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// rack is a key-value store of etcd's kind, with keys under leases.
type rack struct {
	w      *world
	rev    int64
	leases []time.Duration // deadlines, by number; 0: gone
	keys   []rackKey
	guards map[string]int64
	top    map[string]fence.Token
	gone   map[LeaseKey]time.Duration
	denied map[string]bool // nonces whose create was answered as not carried out
}

type rackKey struct {
	LeaseKey
	lease int64
}

const rackLength = 10 * sec

func newRack(w *world) *rack {
	return &rack{w: w, leases: []time.Duration{0}, guards: map[string]int64{}, top: map[string]fence.Token{},
		gone: map[LeaseKey]time.Duration{}, denied: map[string]bool{}}
}

func (r *rack) first(name string) *rackKey {
	for i := range r.keys {
		if r.keys[i].Name == name {
			return &r.keys[i]
		}
	}
	return nil
}

func (r *rack) drop(why string, match func(rackKey) bool) (n int) {
	r.keys = slices.DeleteFunc(r.keys, func(k rackKey) bool {
		if !match(k) {
			return false
		}
		r.w.say("rack: %q of %v goes: %s", k.Name, k.Grant, why)
		r.gone[k.LeaseKey] = r.w.now
		n++
		return true
	})
	r.rev += int64(min(n, 1))
	return n
}

func (r *rack) open() int64 {
	id := int64(len(r.leases))
	r.leases = append(r.leases, 0)
	r.keep(id)
	return id
}

// keep lets the lease run out a length from now, unless it is kept again.
func (r *rack) keep(id int64) {
	until := r.w.now + rackLength
	r.leases[id] = until
	r.w.after(rackLength, func() {
		if r.leases[id] == until {
			r.leases[id] = 0
			r.drop("its lease is over", func(k rackKey) bool { return k.lease == id })
		}
	})
}

// create is one transaction: every comparison comes before the first write.
func (r *rack) create(client string, e CreateKeys) []KeyResult {
	out := make([]KeyResult, len(e.Keys))
	for i, k := range e.Keys {
		held := r.first(k.Name)
		switch {
		case held != nil:
			out[i].Held = authority.State{Held: true, Name: k.Name, Grant: held.Grant}
		case r.leases[e.Lease] == 0:
			out[i].NoLease = true
		default:
			out[i].Created = r.guards[client] == e.Guard
		}
	}
	rev := fence.Token(r.rev + 1)
	for i, k := range e.Keys {
		if !out[i].Created {
			continue
		}
		r.rev, out[i].Token = int64(rev), rev
		r.keys = append(r.keys, rackKey{LeaseKey{k.Name, fence.Grant{Token: rev, Nonce: k.Nonce}}, e.Lease})
		r.w.say("rack: %q is created for %s with %d", k.Name, k.Nonce, rev)
		if rev <= r.top[k.Name] {
			r.w.broken("token %d of %q was given out after %d", rev, k.Name, r.top[k.Name])
		}
		r.top[k.Name] = rev
		if r.denied[k.Nonce] {
			r.w.broken("the create of %s was answered as not carried out", k.Nonce)
		}
	}
	return out
}

func (r *rack) settle(client string, e SettleKeys) []KeyResult {
	r.guards[client] = max(r.guards[client], e.Guard)
	out := make([]KeyResult, len(e.Keys))
	for i, k := range e.Keys {
		if held := r.first(k.Name); held != nil {
			out[i] = KeyResult{Created: held.Grant.Nonce == k.Nonce, Token: held.Grant.Token,
				Held: authority.State{Held: true, Name: k.Name, Grant: held.Grant}}
		}
	}
	return out
}

func (r *rack) under(lease int64) (all []LeaseKey) {
	for _, k := range r.keys {
		if k.lease == lease {
			all = append(all, k.LeaseKey)
		}
	}
	return all
}

// process is a client with several tasks; each takes a lock again and again.
type process struct {
	*body
	r     *rack
	s     *Sharer
	n     uint64
	asks  map[uint64]func(Reply)
	holds map[LeaseKey]authority.Grant // what its tasks believe
	ended map[LeaseKey]bool            // released
}

func (p *process) ask(a Ask, done func(Reply)) {
	p.n++
	a.ID = p.n
	p.asks[a.ID] = done
	p.post(a)
}

func (p *process) step(now Instant, ev Event) {
	for _, e := range p.s.Step(now, ev) {
		switch e := e.(type) {
		case Arm:
			p.arm(e.At)
		case Yield:
			p.w.after(0, func() { p.post(TurnOver{}) })
		case Reply:
			if done := p.asks[e.ID]; done != nil {
				delete(p.asks, e.ID)
				done(e)
			}
		default:
			p.call(0, func(reply func(Event)) { p.serve(e, reply) }, nil)
		}
	}
}

func (p *process) serve(e Effect, reply func(Event)) {
	switch e := e.(type) {
	case OpenLease:
		reply(LeaseOpened{Try: e.Try, Lease: p.r.open(), Guard: p.r.guards[p.name]})
	case CreateKeys:
		reply(KeysCreated{Try: e.Try, Results: p.r.create(p.name, e)})
	case SettleKeys:
		reply(KeysCreated{Try: e.Try, Results: p.r.settle(p.name, e)})
	case KeepLease:
		alive := p.r.leases[e.Lease] != 0
		if alive {
			p.r.keep(e.Lease)
		}
		reply(LeaseKept{Round: e.Round, Alive: alive, Keys: p.r.under(e.Lease)})
	case DropKey:
		if g, ok := p.holds[e.Key]; ok && e.Lapse && p.clock() < g.From.Add(rackLength) {
			p.w.broken("%s deletes %v while its work may still be returning", p.name, e.Key)
		}
		n := p.r.drop("dropped", func(k rackKey) bool { return k.LeaseKey == e.Key })
		reply(KeyDropped{Try: e.Try, Found: n > 0})
	}
}

// task takes a lock, keeps it for a while, and gives it back or forgets it.
func (p *process) task(name string, until time.Duration) {
	if p.w.now > until {
		return
	}
	nonce := fmt.Sprintf("%s%d", p.name, p.n+1)
	p.ask(Ask{Op: OpAcquire, Name: name, Nonce: nonce, Holder: p.name}, func(r Reply) {
		if r.Err != nil {
			p.r.denied[nonce] = r.Err == ErrNotCreated
			return
		}
		p.believe(r.Grant)
		p.renew(r.Grant, p.w.now+p.w.between(500, 20000))
	})
	p.w.after(p.w.between(500, 9000), func() { p.task(name, until) })
}

func (p *process) believe(g authority.Grant) {
	key := LeaseKey{g.Name, g.Grant}
	if at, gone := p.r.gone[key]; gone && time.Duration(float64(g.From)/p.rate) > at+ms(1) {
		p.w.broken("%s was told that it holds %v, which went at %v", p.name, key, at)
	}
	if !p.ended[key] {
		p.holds[key] = g
	}
}

// renew asks every 3 s. In the end the lock is released, or nobody cares for it.
func (p *process) renew(g authority.Grant, until time.Duration) {
	key := LeaseKey{g.Name, g.Grant}
	if p.w.now > until {
		if p.w.oneIn(2) {
			delete(p.holds, key)
			p.ended[key] = true
			p.ask(Ask{Op: OpRelease, Name: g.Name, Grant: g.Grant}, func(Reply) {})
		}
		return
	}
	p.ask(Ask{Op: OpRenew, Name: g.Name, Grant: g.Grant}, func(r Reply) {
		if r.Err != nil {
			delete(p.holds, key)
			return
		}
		if old, ok := p.holds[key]; ok && r.Grant.From < old.From {
			p.w.broken("%s: a renewal of %v counts from before the last one", p.name, key)
		}
		p.believe(r.Grant)
	})
	p.w.after(3*sec, func() { p.renew(g, until) })
}

// check: who believes that it holds has its key, unless it was taken by hand.
func (p *process) check(byHand map[LeaseKey]bool) {
	for key, g := range p.holds {
		if p.clock() >= g.From.Add(8*sec) || byHand[key] {
			continue
		}
		if _, gone := p.r.gone[key]; gone {
			p.w.broken("%s believes that it holds %v until %v, and its clock says %v", p.name, key, g.From.Add(8*sec), p.clock())
		}
	}
}

func shareWorld(seed uint64, without SharerRules) *world {
	w := newWorld(seed)
	r := newRack(w)
	byHand := map[LeaseKey]bool{}
	var all []*process
	for _, name := range []string{"a", "b"} {
		p := &process{body: w.body(name), r: r, asks: map[uint64]func(Reply){}, holds: map[LeaseKey]authority.Grant{}, ended: map[LeaseKey]bool{}}
		p.s = NewSharer(SharerConfig{Length: rackLength, Margin: 2 * sec, Timeout: sec, Without: without})
		p.hear = p.step
		p.naps(60 * sec)
		all = append(all, p)
		w.after(ms(1), func() { p.keeper(120 * sec) })
		for _, lock := range []string{"x", "x", "y"} {
			w.after(time.Duration(1+w.r.IntN(3))*sec, func() { p.task(lock, 60*sec) })
		}
	}
	for range 2 {
		w.after(w.between(5000, 50000), func() {
			r.drop("by hand", func(k rackKey) bool { byHand[k.LeaseKey] = k.Name == "x"; return k.Name == "x" })
		})
	}
	w.verify = func() {
		for _, p := range all {
			p.check(byHand)
		}
	}
	w.run(110 * sec)
	if k := r.first("x"); w.wrong == "" && k != nil {
		w.broken("%v is still there, and nobody cares for it", k.LeaseKey)
	}
	return w
}

// keeper keeps its process's lease alive with a lock of its own.
func (p *process) keeper(until time.Duration) {
	if p.w.now > until {
		return
	}
	name := "keeper of " + p.name
	for key, g := range p.holds {
		if key.Name == name {
			p.ask(Ask{Op: OpRenew, Name: name, Grant: g.Grant}, func(r Reply) {
				if r.Err != nil {
					delete(p.holds, key)
				} else {
					p.believe(r.Grant)
				}
			})
			p.w.after(3*sec, func() { p.keeper(until) })
			return
		}
	}
	p.ask(Ask{Op: OpAcquire, Name: name, Nonce: fmt.Sprintf("%s%d", p.name, p.n+1)}, func(r Reply) {
		if r.Err == nil {
			p.believe(r.Grant)
		}
	})
	p.w.after(3*sec, func() { p.keeper(until) })
}
