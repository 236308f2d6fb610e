package etcdtests

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// moveLeader has another member lead. The one that led goes on to serve.
func (w *world) moveLeader() {
	w.Helper()
	w.eventually("another member leads", func() bool { // on a busy machine one may be elected meanwhile
		err := w.tryToMoveLeader()
		if err != nil {
			w.Logf("moving the leader: %v", err)
		}
		return err == nil
	})
}

func (w *world) tryToMoveLeader() error {
	from, err := w.cluster.Leader(w.long())
	if err != nil {
		return err
	}
	c, err := clientv3.New(w.cluster.ClientConfig(w.cluster.Endpoints()[from : from+1]))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := w.within(10 * time.Second)
	members, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range members.Members {
		if m.ID != members.Header.MemberId {
			_, err := c.MoveLeader(ctx, m.ID)
			return err
		}
	}
	return errors.New("there is no other member")
}

// TestAWatchFollowsTheLeaderAndMissesNothing: the member that it watches is there
// still, and only leads no more.
func TestAWatchFollowsTheLeaderAndMissesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	second := b.stand(line("job", lasting))
	before := b.requests("Watch/Watch")
	w.moveLeader()
	w.eventually("the watch has moved", func() bool {
		// An answer shows the new term.
		g := b.acquire(ask("other", lasting))
		w.must(b.auth.Release(w.long(), g))
		return b.requests("Watch/Watch") > before
	})
	w.must(a.auth.Release(w.long(), first))
	w.must(b.auth.Release(w.long(), w.next(second)))
	w.noKeys("job")
}
