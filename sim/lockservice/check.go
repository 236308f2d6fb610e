package lockservice

import (
	"fmt"
	"hash/maphash"

	pb "go.etcd.io/raft/v3/raftpb"
)

// checker sees to what raft promises: one leader in a term, and the same entry
// at an index on every node. It remembers a window only, so that a long run does
// not grow.
type checker struct {
	s       *Service
	top     uint64 // highest index applied by any node
	leaders [64]struct{ term, id uint64 }
	entries [1024]struct{ index, term, sum uint64 }
}

// seed is one for the process: sums are compared within it, and never shown.
var seed = maphash.MakeSeed()

func (c *checker) violated(format string, args ...any) {
	c.s.Violations = append(c.s.Violations, fmt.Sprintf(format, args...))
}

func (c *checker) elected(n *Node) {
	at := &c.leaders[n.state.term%uint64(len(c.leaders))]
	if at.term == n.state.term && at.id != n.id {
		c.violated("%s and node %d both lead in term %d", n.Machine.Name, at.id, at.term)
	}
	at.term, at.id = n.state.term, n.id
}

// applied reports whether the node is the first to apply the entry.
func (c *checker) applied(n *Node, e *pb.Entry) (first bool) {
	index, sum := e.GetIndex(), maphash.Bytes(seed, e.GetData())
	at := &c.entries[index%uint64(len(c.entries))]
	if at.index == index && (at.term != e.GetTerm() || at.sum != sum) {
		c.violated("%s applies another entry %d than a node before it", n.Machine.Name, index)
	}
	if index <= c.top {
		return false
	}
	c.top = index
	at.index, at.term, at.sum = index, e.GetTerm(), sum
	return true
}
