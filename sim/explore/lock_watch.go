package explore

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// watch is a waiter that is told once when a key is gone.
type watch struct {
	from  *world.Machine
	epoch int
	own   fence.Grant // of the waiter's own key
	protocol.Watch
	woken func()
}

// Watch is actor.Watcher's. A client has one watch; a new one replaces it.
func (s *lock) Watch(from *world.Machine, w protocol.Watch, woken func()) {
	wa := &watch{from, from.Epoch(), s.own(from, w.Key), w, woken}
	s.watches = slices.DeleteFunc(s.watches, func(o *watch) bool { return o.from == from })
	s.watches = append(s.watches, wa)
	s.w.After(s.p.Delay, world.OrderMessage, func() {
		// Who asked before somebody was put ahead has an old line in mind.
		if s.watching(wa) && (s.gone(w) || s.move.Rev > w.From) {
			s.wake(wa)
		}
	})
}

// own is the grant of a client's key in the election of another key.
func (s *lock) own(m *world.Machine, other string) fence.Grant {
	st := s.leader.l.State(own(other, m))
	if !st.Held {
		return fence.Grant{}
	}
	return st.Grant
}

func (s *lock) watching(w *watch) bool { return slices.Contains(s.watches, w) }

// gone reports whether the key that a watch is for is not there any more.
func (s *lock) gone(w protocol.Watch) bool {
	st := s.leader.l.State(w.Key)
	return !st.Held || st.Grant.Token != w.Token
}

// wake tells the waiter over a connection that finds its way again after a cut.
func (s *lock) wake(w *watch) {
	s.watches = slices.DeleteFunc(s.watches, func(o *watch) bool { return o == w })
	s.w.After(s.p.Delay, world.OrderMessage, func() { s.tell(w) })
}

func (s *lock) tell(w *watch) {
	if w.from.Epoch() != w.epoch {
		return
	}
	if !slices.ContainsFunc(s.nodes, func(n *node) bool { return n.m.Up() && s.w.Net.Connected(n.m, w.from) }) {
		s.w.After(200*time.Millisecond, world.OrderMessage, func() { s.tell(w) })
		return
	}
	w.from.Deliver(world.OrderMessage, w.woken)
}

// removed is told by every node; the first one that applies it wakes.
func (s *lock) removed(n *node, e protocol.Removed) {
	for _, w := range slices.Clone(s.watches) {
		if w.Key == e.Key && w.Token == e.Token && w.from.Epoch() == w.epoch {
			// Who has lost the key that he waited with is no waiter any more,
			// though he may not know it yet.
			if s.OnWake != nil && !w.own.IsZero() && s.own(w.from, e.Key) == w.own {
				s.OnWake(w.from.Name, e.Key, e.Rev)
			}
			s.wake(w)
		}
	}
}

// moved wakes the one whose key was put before all others, and whoever stood
// behind it: somebody else stands before him now, and the heir's release is to
// wake only the one who comes next.
func (s *lock) moved(n *node, e protocol.Moved) {
	if e.Rev <= s.move.Rev {
		return // another node has told it
	}
	s.move = e
	for _, w := range slices.Clone(s.watches) {
		if w.Key == e.Key || strings.HasSuffix(e.Key, "/"+w.from.Name) {
			s.wake(w)
		}
	}
}
