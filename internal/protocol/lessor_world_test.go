package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

// cluster is a lock service of three nodes with one log. What is proposed by the
// leader of the day is in the log at once; a node that was replaced learns of it
// later.
type cluster struct {
	w     *world
	cfg   LessorConfig
	term  uint64
	log   []Applied
	nodes []*clusterNode
	lead  *clusterNode
	id    uint64
	top   map[string]fence.Token

	watched func(key string, token fence.Token, moved bool) // told by the leader
}

type clusterNode struct {
	*body
	c       *cluster
	l       *Lessor
	applied int
	logged  time.Duration // when its last proposal is in the log
	replies map[uint64]func(Reply)
}

func newCluster(w *world, cfg LessorConfig) *cluster {
	c := &cluster{w: w, cfg: cfg, top: map[string]fence.Token{}}
	for i := range 3 {
		n := &clusterNode{body: w.body(fmt.Sprintf("n%d", i+1)), c: c, l: NewLessor(cfg), replies: map[uint64]func(Reply){}}
		n.hear = n.step
		c.nodes = append(c.nodes, n)
	}
	c.elect(c.nodes[0])
	return c
}

// elect makes a node the leader of the next term. The old one learns of it when
// it next hears from anybody.
func (c *cluster) elect(n *clusterNode) {
	if old := c.lead; old != nil && old != n {
		c.w.after(c.w.between(1, 3000), func() {
			if c.lead != old {
				old.step(old.clock(), Demoted{})
			}
		})
	}
	c.term++
	c.lead = n
	n.catchUp()
	n.step(n.clock(), Promoted{c.term})
	c.w.say("%s leads in term %d", n.name, c.term)
}

// elections changes the leader now and then, until a time.
func (c *cluster) elections(until time.Duration) {
	if at := c.w.between(2000, 30000); c.w.now+at < until {
		c.w.after(at, func() {
			c.elect(c.nodes[c.w.r.IntN(3)])
			c.elections(until)
		})
	}
}

func (n *clusterNode) catchUp() {
	for n.applied < len(n.c.log) {
		n.applied++
		n.step(n.clock(), n.c.log[n.applied-1])
	}
}

func (n *clusterNode) step(now Instant, ev Event) {
	for _, e := range n.l.Step(now, ev) {
		switch e := e.(type) {
		case Propose:
			n.propose(e.Command)
		case Confirm:
			n.w.after(n.w.between(1, 20), func() {
				if n.c.lead == n && n.w.now >= n.paused {
					n.step(n.clock(), Confirmed(e))
				}
			})
		case Reply:
			if f := n.replies[e.ID]; f != nil {
				delete(n.replies, e.ID)
				f(e)
			}
		case Removed:
			n.tell(e.Key, e.Token, false)
		case Moved:
			n.tell(e.Key, e.Token, true)
		case Arm:
			n.arm(e.At)
		}
	}
}

func (n *clusterNode) tell(key string, token fence.Token, moved bool) {
	if n.c.lead == n && n.c.watched != nil {
		n.c.watched(key, token, moved)
	}
}

// propose commits a command, unless its leader was replaced before it arrives.
func (n *clusterNode) propose(cmd Command) {
	n.logged = max(n.logged, n.w.now+n.w.between(1, 20)) // in order
	n.w.after(n.logged-n.w.now, func() {
		if cmd.Term != n.c.term {
			return
		}
		n.c.log = append(n.c.log, Applied{cmd.Term, cmd})
		n.w.say("log: %v", cmd)
		n.c.lead.catchUp()
		for _, other := range n.c.nodes {
			n.w.after(n.w.between(1, 500), other.catchUp)
		}
	})
}

// serve takes a client's request to the leader, or to some node that may think
// it is.
func (c *cluster) serve(a Ask, reply func(Reply)) {
	n := c.lead
	if c.w.oneIn(4) {
		n = c.nodes[c.w.r.IntN(3)]
	}
	c.id++
	a.ID = c.id
	n.replies[a.ID] = reply
	n.post(a)
}

// worker acquires a name again and again.
type worker struct {
	*body
	c       *cluster
	h       *Holder
	n       int
	without Rules
}

func (c *cluster) worker(name string, without Rules) *worker {
	k := &worker{body: c.w.body(name), c: c, without: without}
	k.hear = k.step
	k.begin()
	return k
}

func (k *worker) begin() {
	k.n++
	k.h = NewHolder(Config{
		Name: "job", Prefix: fmt.Sprintf("%s%d", k.name, k.n), Times: Times{}.WithDefaults(), Wait: true, Without: k.without,
	})
	h := k.h
	k.w.after(k.w.between(1, 2000), func() {
		k.awake(func() {
			if k.h == h {
				k.step(k.clock(), Start{})
			}
		})
	})
}

func (k *worker) step(now Instant, ev Event) {
	h := k.h
	for _, e := range h.Step(now, ev) {
		switch e := e.(type) {
		case Send:
			k.send(h, e)
		case Arm:
			k.arm(e.At)
		case Granted:
			k.w.say("%s holds %v until %v of its clock", k.name, e.Grant.Grant, e.Stop)
			if e.Grant.Token <= k.c.top["job"] {
				k.w.broken("token %d was given out after %d", e.Grant.Token, k.c.top["job"])
			}
			k.c.top["job"] = e.Grant.Token
			k.w.after(k.w.between(1000, 40000), func() { k.release(h) })
		case Ended:
			k.w.say("%s: %v", k.name, e)
			k.w.after(k.w.between(1, 3000), func() { k.release(h) })
		case Quit:
			k.begin()
		}
	}
}

func (k *worker) release(h *Holder) {
	k.awake(func() {
		if k.h == h {
			k.step(k.clock(), Release{})
		}
	})
}

func (k *worker) send(h *Holder, s Send) {
	a := Ask{Op: s.Op, Name: "job", Nonce: s.Nonce, Length: 10 * sec, Grant: s.Grant.Grant}
	k.call(s.Deadline, func(reply func(Event)) {
		k.c.serve(a, func(r Reply) {
			reply(forHolder{h, Answer{Op: s.Op, Try: s.Try, Grant: r.Grant, State: r.State, Err: r.Err}})
		})
	}, forHolder{h, Answer{Op: s.Op, Try: s.Try, Err: errLost}})
}

// forHolder is an answer to one of a worker's machines, which may be over.
type forHolder struct {
	h *Holder
	Answer
}

func (k *worker) hearFor(now Instant, ev Event) {
	if f, ok := ev.(forHolder); ok {
		if f.h != k.h {
			return
		}
		ev = f.Answer
	}
	k.step(now, ev)
}

// check: whoever believes that it holds is the one that the log says holds.
func (k *worker) check() {
	if !k.h.Holding() || k.clock() >= k.h.Stop() {
		return
	}
	if key := k.c.lead.l.key("job"); key == nil || key.grant != k.h.grant.Grant {
		k.w.broken("%s believes that it holds %v until %v, and its clock says %v; the lock service has %v",
			k.name, k.h.grant.Grant, k.h.Stop(), k.clock(), k.c.lead.l.State("job"))
	}
}

func lockWorld(seed uint64, without Rules) *world {
	w := newWorld(seed)
	cfg := LessorConfig{Without: without}
	if w.oneIn(2) {
		cfg.Checkpoint = w.between(500, 8000)
	}
	c := newCluster(w, cfg)
	c.elections(100 * sec)
	var workers []*worker
	for _, name := range []string{"a", "b", "c"} {
		k := c.worker(name, without)
		k.hear = k.hearFor
		k.naps(100 * sec)
		workers = append(workers, k)
	}
	c.nodes[0].naps(100 * sec)
	w.verify = func() {
		for _, k := range workers {
			k.check()
		}
	}
	w.run(100 * sec)
	calm := c.top["job"]
	w.run(220 * sec)
	if w.wrong == "" && c.top["job"] == calm {
		w.broken("nobody has acquired since the faults ended")
	}
	for _, n := range c.nodes {
		n.catchUp()
		if got, want := string(n.l.Marshal()), string(c.nodes[0].l.Marshal()); got != want {
			w.broken("%s has another state than n1 after the same log", n.name)
		}
	}
	return w
}

// firstBroken runs random worlds until one breaks a promise.
func firstBroken[R any](run func(seed uint64, without R) *world, without R, seeds uint64) (seed uint64, w *world) {
	for seed = range seeds {
		if w = run(seed, without); w.wrong != "" {
			return seed, w
		}
	}
	return seeds, nil
}

func TestWhoBelievesThatItHoldsIsTheOneWhoHolds(t *testing.T) {
	if seed, w := firstBroken(lockWorld, 0, *worlds); w != nil {
		t.Fatalf("seed %d: %s", seed, w.story())
	}
	for _, rule := range []Rules{RuleFullLength, RuleClearCheckpoint, RuleMargin, RuleSentAt, RuleConditional} {
		seed, w := firstBroken(lockWorld, rule, 2000)
		if w == nil {
			t.Errorf("without %v no world breaks", rule)
			continue
		}
		t.Logf("without %v, seed %d: %s", rule, seed, w.wrong)
	}
}
