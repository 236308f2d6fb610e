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

// kept is a watch as a node has it.
type kept struct {
	*watch
	tell func(func()) // the way back to whoever registered it
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
	next := &watch{c: c, want: w, woken: from.Bound(woken), node: c.leader}
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
	s.w.Net.Call(w.c.m, n.Machine, func(tell func(func())) { n.watch(kept{w, tell}) })
}

// watch keeps a client's watch, or wakes it at once.
func (n *Node) watch(w kept) {
	if n.state.raft == nil {
		return
	}
	for i, old := range n.state.watches {
		if old.watch == w.watch {
			n.state.watches[i] = w // refreshed, perhaps over another connection
			return
		}
	}
	n.state.watches = append(n.state.watches, w)
	n.wake()
}

// wake wakes whoever watches a key that is gone, or has an old line in mind, as
// far as this node knows.
func (n *Node) wake() {
	n.wakeThose(func(w *watch) bool {
		return n.state.lessor.Revision() >= w.want.From && !n.has(w.want) || n.passed(w.want)
	})
}

// passed reports whether somebody was let in out of order since the look at the
// line that the watch goes by: another may stand before the watcher now, and two
// would be woken by one removal.
func (n *Node) passed(w protocol.Watch) bool {
	return w.From > 0 && int64(n.state.lessor.Floor(w.Key)) > w.From
}

func (n *Node) has(w protocol.Watch) bool {
	s := n.state.lessor.State(w.Key)
	return s.Held && (w.Token == 0 || s.Grant.Token == w.Token)
}

// wakeKey wakes those who watch a key that was removed, or, where a key was put
// ahead of its election, all who watch there: one of them is its owner.
func (n *Node) wakeKey(key string, rev int64, moved bool) {
	n.wakeThose(func(w *watch) bool {
		if moved {
			return election(w.want.Key) == election(key)
		}
		due := w.want.Key == key && !n.has(w.want)
		if due && n.s.OnWake != nil {
			n.s.OnWake(n, w.c.m, key, rev)
		}
		return due
	})
}

func (n *Node) wakeThose(due func(*watch) bool) {
	rest := n.state.watches[:0]
	var woken []kept
	for _, w := range n.state.watches {
		switch {
		case w.over:
		case due(w.watch):
			woken = append(woken, w)
		default:
			rest = append(rest, w)
		}
	}
	clear(n.state.watches[len(rest):])
	n.state.watches = rest
	for _, w := range woken {
		n.s.Wakes++
		w.tell(w.wake)
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
