package etcdtests

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// TestADeposedLeaderRenewsNothing: it is cut off from the others, still believes
// to lead, and the client reaches it alone.
func TestADeposedLeaderRenewsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	const length = 3 * time.Second
	c := a.stint(stint.Options{TTL: length})
	l, err := c.TryAcquire(w.long(), "job")
	w.must(err)
	leader, err := w.cluster.Leader(w.long())
	w.must(err)
	for i, link := range a.door.Links {
		if i != leader {
			link.Cut()
		}
	}
	w.cluster.Isolate(leader)
	b.door.Links[leader].Cut() // the rival goes to the others
	waiter := b.background(line("job", length))
	<-l.Context().Done()
	stopped := now()
	g := <-waiter
	w.must(g.err)
	if g.at <= stopped {
		t.Errorf("the rival was granted %v before the holder at the deposed leader had stopped", stopped.Sub(g.at))
	}
	if !errors.Is(l.Err(), stint.ErrExpired) {
		t.Errorf("the cause: %v", l.Err())
	}
	w.cluster.Rejoin(leader)
}
