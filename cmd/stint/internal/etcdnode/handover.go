package etcdnode

import (
	"errors"
	"time"
)

var errNotTaken = errors.New("the other node did not take it within an election timeout")

// handOver gives the lead to another node, if this one has it, and reports
// whether that went well. etcd itself waits for more than 5 s for a node that may
// be stopping, too; but a lead that is not taken within an election timeout is
// not taken at all: raft gives the handing over up.
func (n *Node) handOver() bool {
	done := make(chan error, 1)
	go func() { done <- n.server().TryTransferLeadershipOnShutdown() }() // ends with the server at the latest
	patience := time.NewTimer(n.s.Election + 2*n.s.Heartbeat)
	defer patience.Stop()
	var err error
	select {
	case err = <-done:
	case <-patience.C:
		err = errNotTaken
	}
	if err != nil {
		n.s.Log.Warn("the lead could not be handed over; the others elect a leader within an election timeout or two", "cause", err)
	}
	return err == nil
}
