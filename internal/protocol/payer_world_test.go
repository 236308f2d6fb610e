package protocol

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// till keeps the records of payments behind a fence, and beside it stands a bank
// that knows no tokens.
type till struct {
	w       *world
	keys    bool // the bank takes keys
	fence   fence.Token
	records map[string]Receipt
	asked   map[string]bool
	paid    map[string]int
}

func newTill(w *world, keys bool) *till {
	return &till{w: w, keys: keys, records: map[string]Receipt{}, asked: map[string]bool{}, paid: map[string]int{}}
}

func (s *till) note(e Note) error {
	switch {
	case e.Grant.Token < s.fence:
		return &fence.StaleError{Presented: e.Grant.Token, Fence: s.fence}
	case e.Grant.Token > s.fence:
		return fence.ErrNotRaised
	case s.records[e.Key] != e.If && s.records[e.Key] != e.Receipt:
		return fmt.Errorf("note: %w", ErrConflict)
	}
	s.w.say("till: %v", e)
	s.records[e.Key] = e.Receipt
	if e.Receipt.State == PayDone && s.paid[e.Key] == 0 {
		s.w.broken("%s is noted as done, and was not", e.Key)
	}
	return nil
}

// pay refuses the first request of some keys for good.
func (s *till) pay(key, who string) error {
	first := !s.asked[key]
	s.asked[key] = true
	switch {
	case first && s.w.oneIn(10):
		return fmt.Errorf("no money: %w", ErrNotDone)
	case s.keys && s.paid[key] > 0:
		return nil
	}
	s.paid[key]++
	s.w.say("bank: %s, asked by %s", key, who)
	if s.paid[key] > 1 {
		s.w.broken("%s is paid twice", key)
	}
	return nil
}

// cashier does the payments of a job, one after the other, under a lease of 10 s.
type cashier struct {
	*body
	s       *till
	p       *Payer
	grant   fence.Grant
	stop    Instant
	n, turn int
	without PayerRules
}

// begin raises the fence and starts over: a new holder, which may have been a
// holder before.
func (c *cashier) begin(token fence.Token) {
	c.turn++
	c.grant = fence.Grant{Token: token, Nonce: c.name}
	c.stop = c.clock().Add(8 * sec)
	c.n = 0
	c.s.fence = max(c.s.fence, token)
	c.w.say("%s holds %d", c.name, token)
	c.next()
}

func (c *cashier) next() {
	c.n++
	if c.n > 3 {
		c.p = nil
		return
	}
	c.p = NewPayer(PayerConfig{
		Key: fmt.Sprint("p", c.n), Grant: c.grant, Stop: c.stop, Nonce: fmt.Sprintf("%s%d-%d", c.name, c.turn, c.n),
		TakesKeys: c.s.keys, Without: c.without,
	})
	c.step(c.clock(), Start{})
}

// forPayer is an event for one of a cashier's machines, which may be over.
type forPayer struct {
	p *Payer
	Event
}

func (c *cashier) hearFor(now Instant, ev Event) {
	f, ok := ev.(forPayer)
	if ok {
		ev = f.Event
	}
	if c.p != nil && (!ok || f.p == c.p) {
		c.step(now, ev)
	}
}

func (c *cashier) step(now Instant, ev Event) {
	p := c.p
	for _, e := range p.Step(now, ev) {
		switch e := e.(type) {
		case Fetch:
			c.call(e.Deadline, func(reply func(Event)) {
				reply(forPayer{p, Fetched{Try: e.Try, Receipt: c.s.records[e.Key]}})
			}, forPayer{p, Fetched{Try: e.Try, Err: errLost}})
		case Note:
			c.call(e.Deadline, func(reply func(Event)) {
				reply(forPayer{p, Noted{Try: e.Try, Err: c.s.note(e)}})
			}, forPayer{p, Noted{Try: e.Try, Err: errLost}})
		case Call:
			c.call(e.Deadline, func(reply func(Event)) {
				reply(forPayer{p, Called{Try: e.Try, Err: c.s.pay(e.Key, c.name)}})
			}, forPayer{p, Called{Try: e.Try, Err: errLost}})
		case Arm:
			c.arm(e.At)
		case Closed:
			c.closing(p.cfg.Key, e)
		case Quit:
			c.w.after(c.w.between(1, 300), func() { c.awake(c.next) })
		}
	}
}

func (c *cashier) closing(key string, e Closed) {
	c.w.say("%s: %s %v", c.name, key, e)
	switch {
	case e.State == PayDone && c.s.paid[key] == 0:
		c.w.broken("%s says that %s is done", c.name, key)
	case e.State == PayUnknown && c.s.keys:
		c.w.broken("%s leaves %s to a person although the bank takes keys", c.name, key)
	}
}

func payWorld(seed uint64, keys bool, without PayerRules) *world {
	w := newWorld(seed)
	s := newTill(w, keys)
	token := fence.Token(0)
	var all []*cashier
	for _, name := range []string{"a", "b"} {
		c := &cashier{body: w.body(name), s: s, without: without}
		c.hear = c.hearFor
		c.naps(30 * sec)
		all = append(all, c)
	}
	for i := range 4 { // holders take turns, some before the last one has stopped
		c := all[i%2]
		w.after(time.Duration(i)*8*sec+w.between(0, 8000), func() {
			token++
			mine := token
			c.awake(func() { c.begin(mine) })
		})
	}
	w.run(60 * sec)
	calm := &cashier{body: w.body("last"), s: s, without: without}
	calm.hear = calm.hearFor
	calm.begin(token + 1)
	w.run(90 * sec)
	for i := range 3 {
		key := fmt.Sprint("p", i+1)
		if s.records[key].State == NotBegun && s.paid[key] > 0 {
			w.broken("%s was paid, and has no record", key)
		}
	}
	return w
}
