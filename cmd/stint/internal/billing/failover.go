package billing

import (
	"context"
	"fmt"
	"sync"

	"github.com/stint-dev/stint/fence"
)

// Nodes are the processes of an authority of which one leads.
type Nodes interface {
	URL() string // of the authority
	// KillLeader kills the one that leads, with SIGKILL, and says which it was.
	KillLeader(ctx context.Context) (name string, pid int, err error)
	// Leader waits until one leads.
	Leader(ctx context.Context) (name string, err error)
}

// failover is the part of the story in which the leader is killed.
type failover struct {
	ctx              context.Context // of the run
	asking           sync.WaitGroup
	killed, survived bool
	led              bool        // somebody else leads
	token            fence.Token // B's when the leader was killed
}

// follow kills the leader when B has billed the chunk that A has in its buffer,
// and sees whether B goes on under the lease that it has.
func (s *Show) follow(e Event) error {
	f := &s.failover
	switch {
	case s.Nodes == nil:
	case e.Step == LeaderNew:
		if e.Err != "" {
			return fmt.Errorf("no other node became the leader: %s", e.Err)
		}
		f.led = true
	case e.Who != "B" || e.Err != "":
	case !f.killed && e.Step == AfterCommit && e.Chunk >= heldChunk:
		return s.killLeader(e.Token)
	case f.killed && !f.survived && e.Step == AfterAcquire:
		return fmt.Errorf("worker B lost its lease with the leader that was killed: token %d became %d", f.token, e.Token)
	case f.led && !f.survived && e.Step == AfterRenew && e.Token == f.token:
		f.survived = true
		s.tell(Event{Who: "B", Step: Survived, Token: f.token})
	}
	return nil
}

// Kept says which lease outlived the leader, or "".
func (s *Show) Kept() string {
	if !s.failover.survived {
		return ""
	}
	return fmt.Sprintf("The leader of the three etcd nodes was killed while B held the lease. B kept it, with the\n"+
		"same token %d: a lease is the cluster's, and the next leader goes on with it.", s.failover.token)
}

func (s *Show) killLeader(token fence.Token) error {
	f := &s.failover
	name, pid, err := s.Nodes.KillLeader(f.ctx)
	if err != nil {
		return err
	}
	f.killed, f.token = true, token
	s.tell(Event{Who: Etcd, Step: LeaderKilled, Note: fmt.Sprintf("%s (pid %d)", name, pid)})
	f.asking.Go(func() {
		name, err := s.Nodes.Leader(f.ctx)
		select {
		case s.events <- failure(Event{Who: Etcd, Step: LeaderNew, Note: name}, err):
		case <-s.over:
		}
	})
	return nil
}

// Etcd is who tells of the nodes.
const Etcd = "etcd"
