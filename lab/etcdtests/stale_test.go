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
	const length = 6 * time.Second
	l := w.lease(a.stint(stint.Options{TTL: length}), "job")
	leader, err := w.cluster.Leader(w.long())
	w.must(err)
	for i, link := range a.door.Links {
		if i != leader {
			link.Cut()
		}
	}
	w.cluster.Isolate(leader)
	b.door.Links[leader].Cut() // the rival goes to the others
	w.next(b.rival(line("job", length), l))
	if !errors.Is(l.Err(), stint.ErrExpired) {
		t.Errorf("the cause: %v", l.Err())
	}
	w.cluster.Rejoin(leader)
}
