package lockservice

import (
	"errors"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// ErrNoLeader: every node was asked, and none leads. Nothing was changed.
var ErrNoLeader = errors.New("no node of the lock service leads")

// client is what one machine knows of the service.
type client struct {
	s       *Service
	m       *world.Machine
	leader  int // index of the node that is asked first
	watches []*watch
}

func (s *Service) client(m *world.Machine) *client {
	c := s.clients[m]
	if c == nil {
		c = &client{s: s, m: m}
		s.clients[m] = c
	}
	return c
}

// Do sends a request from a machine. done is called there with the answer, at
// most once: never, if the request or its answer is lost, so whoever asks keeps
// a deadline of his own. A node that does not lead, or that refuses the
// connection because it is down, costs a further try at the next one.
//
// A wait (protocol.OpWait) is answered when the name may be free; the service
// keeps no line but that of an election, so there is nothing to leave.
func (s *Service) Do(from *world.Machine, ask protocol.Ask, done func(protocol.Reply)) {
	switch ask.Op {
	case protocol.OpWait:
		s.Watch(from, protocol.Watch{Key: ask.Name}, func() { done(protocol.Reply{Op: ask.Op}) })
		return
	case protocol.OpLeave:
		from.Deliver(world.OrderMessage, func() { done(protocol.Reply{Op: ask.Op}) })
		return
	}
	s.ids++
	ask.ID = s.ids
	r := &request{client: s.client(from), ask: ask, done: done}
	r.send(r.client.leader)
}

// request is a question under way.
type request struct {
	*client
	ask   protocol.Ask
	done  func(protocol.Reply)
	tries int
	alarm *world.Alarm
	over  bool
}

func (r *request) send(node int) {
	r.tries++
	n := r.s.nodes[node]
	try := r.tries
	r.alarm.Stop()
	r.alarm = r.m.Mono.After(r.s.cfg.Patience, func() { r.silent(node) })
	if r.s.refuses(r.m, n) {
		if try == 1 {
			r.s.w.Log.Add(world.Event{Who: r.m.Name, What: "connection-refused", Name: r.ask.Name, Peer: n.Machine.Name})
		}
		r.m.Deliver(world.OrderMessage, func() { r.next(try, node) })
		return
	}
	r.s.w.Net.Call(r.m, n.Machine, func(answer func(func())) {
		n.ask(r.ask, func(reply protocol.Reply, leader int) {
			answer(func() { r.answer(try, node, reply, leader) })
		})
	})
}

// refuses reports whether a connection to a node is refused at once: its process
// is down, and the way there and back is open.
func (s *Service) refuses(m *world.Machine, n *Node) bool {
	return !n.Machine.Up() && s.w.Net.Connected(m, n.Machine) && s.w.Net.Connected(n.Machine, m)
}

func (r *request) answer(try, node int, reply protocol.Reply, leader int) {
	var not protocol.ErrNotLeader
	switch {
	case r.over || try != r.tries:
	case errors.As(reply.Err, &not) && leader >= 0 && leader != node && r.tries <= len(r.s.nodes):
		r.send(leader)
	case errors.As(reply.Err, &not):
		r.next(try, node)
	default:
		r.leader = node
		r.finish(reply)
	}
}

// next tries the node after one that cannot help.
func (r *request) next(try, node int) {
	if r.over || try != r.tries {
		return
	}
	if r.tries >= 2*len(r.s.nodes) {
		r.finish(protocol.Reply{ID: r.ask.ID, Op: r.ask.Op, Err: ErrNoLeader})
		return
	}
	r.send((node + 1) % len(r.s.nodes))
}

// silent goes to another node with the next request. This one is not repeated:
// it may have been carried out.
func (r *request) silent(node int) {
	if !r.over && r.leader == node {
		r.leader = (node + 1) % len(r.s.nodes)
	}
}

func (r *request) finish(reply protocol.Reply) {
	r.over = true
	r.alarm.Stop()
	r.done(reply)
}

// ask is a request's arrival at a node.
func (n *Node) ask(a protocol.Ask, back func(protocol.Reply, int)) {
	if n.state.raft == nil {
		return
	}
	if n.Leads() {
		n.state.backs = append(n.state.backs, way{a, back})
		n.step(a)
		n.pump()
		return
	}
	leader := int(n.state.raft.BasicStatus().Lead) - 1
	back(protocol.Reply{ID: a.ID, Op: a.Op, Err: protocol.ErrNotLeader{}}, leader)
}

// way is the way back of a request that a node works on.
type way struct {
	ask  protocol.Ask
	back func(protocol.Reply, int)
}

// reply sends an answer of the lessor's to whoever waits for it.
func (n *Node) reply(r protocol.Reply) {
	for i, b := range n.state.backs {
		if b.ask.ID == r.ID {
			n.state.backs = append(n.state.backs[:i], n.state.backs[i+1:]...)
			if r.Op == protocol.OpRenew && r.Err == nil && b.ask.Name != "" {
				n.log(world.Event{
					What: "renewed", Name: b.ask.Name, Token: uint64(b.ask.Grant.Token),
					Rev: uint64(n.state.lessor.Revision()), Deadline: n.deadline(b.ask.Name),
				})
			}
			b.back(r, int(n.id)-1)
			return
		}
	}
}
