package etcdtests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
)

func TestConformanceOnThreeMembers(t *testing.T) {
	t.Parallel()
	suite{dial: dialing(etcdcluster.Run(t, 3, etcdcluster.Options{NoSync: true}))}.run(t)
}

// TestConformanceAcrossARollingRestart: the members end gracefully and come back
// one after the other, while the cases run.
func TestConformanceAcrossARollingRestart(t *testing.T) {
	c := etcdcluster.Run(t, 3, etcdcluster.Options{NoSync: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var restarts atomic.Int32
	go func() {
		for i := 0; i < 3 && ctx.Err() == nil; i++ {
			if err := c.Restart(ctx, i); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			restarts.Add(1)
			// The next only when the cluster has settled, as one does.
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
			}
		}
		ended <- nil
	}()
	t.Cleanup(func() { // after the parallel cases, before the cluster is closed
		meanwhile := restarts.Load() // mostly all, but how long one takes is up to the machine
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		t.Logf("%d restarts meanwhile", meanwhile)
		if meanwhile == 0 {
			t.Error("no member was restarted while the cases ran")
		}
	})
	// A new leader begins every lease anew, and what the cases do not renew must not
	// run out over the change.
	suite{dial: dialing(c), length: 10 * time.Second, late: 12 * time.Second}.run(t)
}
