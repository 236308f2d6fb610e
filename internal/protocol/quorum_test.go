package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func quorum(c QuorumConfig) *Quorum {
	if c.Value == "" {
		c.Value = "a"
	}
	c.Name, c.Masters, c.Length, c.Timeout = "job", 5, 10*sec, ms(50)
	return NewQuorum(c)
}

// TestAMajorityIsOfAllMasters, not of those that are reached or have answered.
func TestAMajorityIsOfAllMasters(t *testing.T) {
	for _, c := range []struct {
		cfg  QuorumConfig
		yes  []int
		held bool
	}{
		{QuorumConfig{}, []int{1, 2, 3}, true},
		{QuorumConfig{}, []int{1, 2}, false},
		{QuorumConfig{Reach: []int{1, 2}}, []int{1, 2}, false},
		{QuorumConfig{Reach: []int{1, 2}, Without: QuorumMajority}, []int{1, 2}, true},
	} {
		q := quorum(c.cfg)
		q.Step(0, Start{})
		for _, m := range c.yes {
			q.Step(0, Lent{m, true})
			q.Step(0, Lent{m, true}) // the network brought it twice
		}
		got, ok := find[Counted](q.Step(at(ms(50)), Tick{}))
		if !ok {
			got.Held = q.Holding(at(ms(50)))
		}
		if got.Held != c.held {
			t.Errorf("%+v, %v: %v", c.cfg, c.yes, got)
		}
	}
}

// TestWhoHasNoMajorityGivesBackEverywhere, even where nobody has answered.
func TestWhoHasNoMajorityGivesBackEverywhere(t *testing.T) {
	for _, without := range []QuorumRules{0, QuorumGiveBack} {
		q := quorum(QuorumConfig{Without: without})
		q.Step(0, Start{})
		q.Step(0, Lent{1, true})
		back := 0
		for _, e := range q.Step(at(ms(50)), Tick{}) {
			if r, ok := e.(Return); ok && r.Value == "a" {
				back++
			}
		}
		if (back == 5) != (without == 0) {
			t.Errorf("without %d: %d are given back", without, back)
		}
	}
}

// TestTheTimeOfAcquiringIsNotHeld: a client that was paused meanwhile has less, or
// nothing.
func TestTheTimeOfAcquiringIsNotHeld(t *testing.T) {
	for _, c := range []struct {
		without  QuorumRules
		answered time.Duration
		held     bool
		validity time.Duration
	}{
		{0, 3 * sec, true, 7 * sec}, {0, 10 * sec, false, 0},
		{QuorumElapsed, 3 * sec, true, 10 * sec}, {QuorumElapsed, 11 * sec, true, 10 * sec},
	} {
		q := quorum(QuorumConfig{Reach: []int{1, 2, 3}, Without: c.without})
		q.Step(0, Start{})
		q.Step(0, Lent{1, true})
		q.Step(0, Lent{2, true})
		got, _ := find[Counted](q.Step(at(c.answered), Lent{3, true}))
		if got.Held != c.held || got.Validity != c.validity {
			t.Errorf("%+v: %v", c, got)
		}
		end := c.answered + c.validity
		if q.Holding(at(end)) || c.held && !q.Holding(at(end-1)) {
			t.Errorf("%+v: believes until another time", c)
		}
	}
}

func TestAQuorumIsReleasedOnce(t *testing.T) {
	q := quorum(QuorumConfig{})
	q.Step(0, Start{})
	if out := q.Step(0, Release{}); !has[Return](out) || q.Holding(0) {
		t.Errorf("%v", out)
	}
	if out := q.Step(0, Release{}); len(out) > 0 {
		t.Errorf("again: %v", out)
	}
	if out := q.Step(at(ms(50)), Lent{1, true}); len(out) > 0 {
		t.Errorf("an answer after it: %v", out)
	}
}

func TestAQuorumsSettings(t *testing.T) {
	good := QuorumConfig{Name: "n", Value: "v", Masters: 5, Length: sec, Timeout: ms(50)}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []QuorumConfig{
		{}, {Name: "n", Value: "v", Masters: 5, Length: sec}, {Name: "n", Value: "v", Masters: 5, Length: sec, Timeout: sec},
		{Name: "n", Value: "v", Masters: 5, Length: sec, Timeout: ms(50), Reach: []int{6}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// masterKey is a key on a master, which lets go by its wall clock.
type masterKey struct {
	value string
	until time.Duration
}

// borrower takes a quorum again and again.
type borrower struct {
	*body
	q    *Quorum
	n    int
	keys []masterKey // of the masters
	wall []time.Duration
	cfg  QuorumConfig
}

// forQuorum is an event for one attempt, which may be over.
type forQuorum struct {
	q *Quorum
	Event
}

func (c *borrower) hearFor(now Instant, ev Event) {
	if f, ok := ev.(forQuorum); ok {
		if f.q != c.q {
			return
		}
		ev = f.Event
	}
	c.step(now, ev)
}

func (c *borrower) begin() {
	c.n++
	cfg := c.cfg
	cfg.Value = fmt.Sprint(c.name, c.n)
	c.q = NewQuorum(cfg)
	c.post(Start{})
}

func (c *borrower) step(now Instant, ev Event) {
	q := c.q
	for _, e := range q.Step(now, ev) {
		switch e := e.(type) {
		case Arm:
			c.arm(e.At)
		case Borrow:
			c.call(0, func(reply func(Event)) {
				k, wall := &c.keys[e.Master-1], c.w.now+c.wall[e.Master-1]
				yes := k.value == "" || wall >= k.until
				if yes {
					*k = masterKey{e.Value, wall + e.Length}
				}
				reply(forQuorum{q, Lent{e.Master, yes}})
			}, nil)
		case Return:
			c.call(0, func(func(Event)) {
				if k := &c.keys[e.Master-1]; k.value == e.Value {
					*k = masterKey{}
				}
			}, nil)
		case Counted:
			c.w.say("%s: %v", e.String(), c.name)
			if e.Held && c.w.oneIn(2) {
				c.w.after(c.w.between(100, 8000), func() { c.post(forQuorum{q, Release{}}) })
			}
			c.w.after(c.w.between(9000, 14000), func() { c.awake(c.begin) })
		}
	}
}

// quorumWorld has two clients, whose clocks keep their rates; jumps sets the
// masters' clocks.
func quorumWorld(seed uint64, jumps bool, without QuorumRules) *world {
	w := newWorld(seed)
	keys, wall := make([]masterKey, 5), make([]time.Duration, 5)
	var all []*borrower
	for i, name := range []string{"a", "b"} {
		c := &borrower{body: w.body(name), keys: keys, wall: wall, cfg: QuorumConfig{Name: "job", Masters: 5, Length: 10 * sec, Timeout: ms(200), Without: without}}
		c.rate = 1 // Redlock has a margin for rates, and this client none
		if without&QuorumMajority != 0 {
			c.cfg.Reach = [][]int{{1, 2}, {4, 5}}[i]
		}
		c.hear = c.hearFor
		c.naps(60 * sec)
		all = append(all, c)
		w.after(w.between(1, 3000), c.begin)
	}
	for i := range 3 * len(wall) {
		if jumps {
			w.after(w.between(1000, 60000), func() { wall[i%5] += w.between(0, 12000) })
		}
	}
	w.verify = func() {
		if !slices.ContainsFunc(all, func(c *borrower) bool { return c.q == nil || !c.q.Holding(c.clock()) }) {
			w.broken("both believe that they hold")
		}
	}
	w.run(60 * sec)
	return w
}

// TestAQuorumOfHonestClocksIsOne: without clocks that jump no two hold; with them,
// or without a rule, two do. This is why nothing of users' stands on it.
func TestAQuorumOfHonestClocksIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if w := quorumWorld(rapid.Uint64().Draw(t, "seed"), false, 0); w.wrong != "" {
			t.Fatal(w.story())
		}
	})
	for _, c := range []struct {
		jumps   bool
		without QuorumRules
	}{{true, 0}, {false, QuorumElapsed}, {false, QuorumMajority}} {
		run := func(seed uint64, without QuorumRules) *world { return quorumWorld(seed, c.jumps, without) }
		seed, w := firstBroken(run, c.without, 3000)
		if w == nil {
			t.Errorf("%+v: no world breaks", c)
			continue
		}
		t.Logf("%+v: world %d breaks: %s", c, seed, w.wrong)
	}
}

func tapeQuorum(t *testing.T, tape *tape) {
	free := map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true}
	play := func(name string, reach ...int) *Quorum {
		q := quorum(QuorumConfig{Reach: reach, Value: strings.ReplaceAll(name, " ", "-")})
		queue := []Event{Start{}}
		for len(queue) > 0 {
			out := q.Step(0, queue[0])
			tape.record(0, name, queue[0], out)
			queue = queue[1:]
			for _, e := range out {
				if b, ok := e.(Borrow); ok {
					queue = append(queue, Lent{b.Master, free[b.Master]})
					free[b.Master] = false
				}
			}
		}
		return q
	}
	a, b := play("client 1", 1, 2, 3), play("client 2", 3, 4, 5)
	free = map[int]bool{3: true, 4: true, 5: true} // the clock of master 3 jumps
	c := play("client 2 again", 3, 4, 5)
	if !a.Holding(0) || b.Holding(0) || !c.Holding(0) {
		t.Error("who holds is another one")
	}
}
