package lockservice

import (
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// refresh is how often a client registers its watch again: the node that kept it
// may be cut off, and would never say so.
const refresh = 5 * time.Second

// watch waits for a key to go. It is registered at one node at a time.
type watch struct {
	c     *client
	want  protocol.Watch
	woken func()
	node  int
	over  bool
}

// Watch calls woken on the machine, once, when the key that w's token created is
// gone, when somebody was put ahead in its election, or when the watch was lost.
// A machine has one watch for each election: the next takes the place of the one
// before. A token of zero means whatever key has the name.
func (s *Service) Watch(from *world.Machine, w protocol.Watch, woken func()) {
	c := s.client(from)
	kept := c.watches[:0]
	for _, old := range c.watches {
		if election(old.want.Key) == election(w.Key) {
			old.over = true
		}
		if !old.over {
			kept = append(kept, old)
		}
	}
	next := &watch{c: c, want: w, woken: woken, node: c.leader}
	c.watches = append(kept, next)
	next.register()
}

// election is what the keys of one election have in common; a name without a
// slash stands alone.
func election(key string) string {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		return key[:i+1]
	}
	return key
}

func (w *watch) register() {
	if w.over {
		return
	}
	s := w.c.s
	w.c.m.Mono.After(refresh, w.register)
	w.node = w.c.leader
	for range s.nodes { // a node that is down is passed over
		if !s.refuses(w.c.m, s.nodes[w.node]) {
			break
		}
		w.node = (w.node + 1) % len(s.nodes)
	}
	n := s.nodes[w.node]
	s.w.Net.Send(w.c.m, n.Machine, func() { n.watch(w) })
}

// watch keeps a client's watch, or wakes it at once.
func (n *Node) watch(w *watch) {
	if n.state.raft == nil {
		return
	}
	for _, old := range n.state.watches {
		if old == w {
			return // refreshed
		}
	}
	n.state.watches = append(n.state.watches, w)
	n.wake()
}

// wake wakes whoever watches a key that is gone, as far as this node knows.
func (n *Node) wake() {
	n.wakeThose(func(w *watch) bool {
		return n.state.lessor.Revision() >= w.want.From && !n.has(w.want)
	})
}

func (n *Node) has(w protocol.Watch) bool {
	s := n.state.lessor.State(w.Key)
	return s.Held && (w.Token == 0 || s.Grant.Token == w.Token)
}

// wakeKey wakes those who watch a key that was removed, or, where a key was put
// ahead of its election, all who watch there: one of them is its owner.
func (n *Node) wakeKey(key string, moved bool) {
	n.wakeThose(func(w *watch) bool {
		if moved {
			return election(w.want.Key) == election(key)
		}
		return w.want.Key == key && !n.has(w.want)
	})
}

func (n *Node) wakeThose(due func(*watch) bool) {
	kept := n.state.watches[:0]
	var woken []*watch
	for _, w := range n.state.watches {
		switch {
		case w.over:
		case due(w):
			woken = append(woken, w)
		default:
			kept = append(kept, w)
		}
	}
	clear(n.state.watches[len(kept):])
	n.state.watches = kept
	for _, w := range woken {
		n.s.Wakes++
		n.s.w.Net.Send(n.Machine, w.c.m, w.wake)
	}
}

func (w *watch) wake() {
	if !w.over {
		w.over = true
		w.woken()
	}
}

// lost tells the client that the node has gone: its connection breaks.
func (w *watch) lost(n *Node) {
	if w.c.s.refuses(w.c.m, n) {
		w.c.m.Deliver(world.OrderMessage, w.wake)
	}
}
