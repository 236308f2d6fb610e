package etcdtests

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// moveLeader has another member lead. The one that led goes on to serve.
func (w *world) moveLeader() {
	w.Helper()
	from, err := w.cluster.Leader(w.long())
	w.must(err)
	c, err := clientv3.New(w.cluster.ClientConfig(w.cluster.Endpoints()[from : from+1]))
	w.must(err)
	defer c.Close()
	st, err := c.Status(w.long(), w.cluster.Endpoints()[from])
	w.must(err)
	members, err := c.MemberList(w.long())
	w.must(err)
	for _, m := range members.Members {
		if m.ID != st.Leader {
			_, err := c.MoveLeader(w.long(), m.ID)
			w.must(err)
			return
		}
	}
}

// TestAWatchFollowsTheLeaderAndMissesNothing: the member that it watches is there
// still, and only leads no more.
func TestAWatchFollowsTheLeaderAndMissesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", time.Minute))
	second := line("job", time.Minute)
	if _, err := b.auth.Acquire(w.long(), second); !errors.Is(err, authority.ErrHeld) {
		t.Fatal(err)
	}
	before := b.requests("Watch/Watch")
	w.moveLeader()
	w.eventually("the watch has moved", func() bool {
		// An answer shows the new term.
		g := b.acquire(ask("other", time.Minute))
		w.must(b.auth.Release(w.long(), g))
		return b.requests("Watch/Watch") > before
	})
	w.must(a.auth.Release(w.long(), first))
	g, err := b.serve(w.long(), second)
	w.must(err)
	w.must(b.auth.Release(w.long(), g))
	w.noKeys("job")
}
