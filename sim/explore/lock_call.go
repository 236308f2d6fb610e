package explore

import (
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/world"
)

// hint is what a client knows of the service: the node that it asks first.
type hint struct {
	node     int
	answered bool // the last question to it
}

// Call is actor.Lock's. A node that does not lead says so, and the next one is
// asked; one that keeps silent is passed over the next time.
func (s *lock) Call(from *world.Machine, r actor.Request, answer func(protocol.Answer)) {
	h := s.hints[from]
	if h == nil {
		h = &hint{answered: true}
		s.hints[from] = h
	}
	if !h.answered {
		h.node = (h.node + 1) % len(s.nodes)
	}
	h.answered = false
	s.call(from, h, 2*len(s.nodes), r, answer)
}

func (s *lock) call(from *world.Machine, h *hint, tries int, r actor.Request, answer func(protocol.Answer)) {
	n := s.nodes[h.node]
	s.w.Net.Call(from, n.m, func(back func(func())) {
		n.ask(r, func(reply protocol.Reply) {
			back(func() {
				h.answered = true
				if _, ok := reply.Err.(protocol.ErrNotLeader); ok && tries > 0 {
					h.node = (h.node + 1) % len(s.nodes)
					from.Mono.After(20*time.Millisecond, func() { s.call(from, h, tries-1, r, answer) })
					return
				}
				answer(protocol.Answer{Op: r.Op, Grant: reply.Grant, State: reply.State, List: reply.List, Err: reply.Err})
			})
		})
	})
}

// ask hands a request to the node. Every copy of a request that the network
// delivers is a request.
func (n *node) ask(r actor.Request, reply func(protocol.Reply)) {
	n.s.id++
	a := protocol.Ask{
		ID: n.s.id, Op: r.Op, Name: r.Ask.Name, Length: r.Ask.Length, Nonce: r.Ask.Nonce, Holder: r.Ask.Holder,
		Grant: r.Grant.Grant, Key: r.Key,
	}
	if r.Op == protocol.OpList {
		a.Name = strings.TrimSuffix(r.Prefix, "/") + "/"
	}
	n.asked[a.ID] = reply
	n.step(a)
}

// use creates and drops keys of other jobs, which use up revisions.
func (s *lock) use(n int) {
	for range n {
		s.id++
		s.leader.step(protocol.Ask{ID: s.id, Op: protocol.OpBump, By: 1})
	}
}
