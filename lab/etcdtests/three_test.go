package etcdtests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// conformOn runs the suite on a cluster, with leases that are long enough for it:
// what the cases do not renew must not run out over a change of leader.
func conformOn(t *testing.T, c *etcdcluster.Cluster, length, late time.Duration) {
	open := func(t *testing.T, prefix string) authority.Authority {
		client, err := clientv3.New(c.ClientConfig(c.Endpoints()))
		if err != nil {
			t.Fatal(err)
		}
		a, err := etcdlease.New(client, etcdlease.Options{Prefix: prefix, OwnClient: true})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	authoritytest.Run(t, authoritytest.Subject{
		Forgets: true, Length: length, Late: late,
		Open: func(t *testing.T) authoritytest.Handle {
			prefix := fmt.Sprintf("suite%d", prefixes.Add(1))
			return authoritytest.Handle{
				Authority: open(t, prefix),
				Peer:      func(t *testing.T) authority.Authority { return open(t, prefix) },
			}
		},
	})
}

func TestConformanceOnThreeMembers(t *testing.T) {
	conformOn(t, etcdcluster.Run(t, 3, etcdcluster.Options{NoSync: true}), 4*time.Second, time.Second)
}

// TestConformanceAcrossARollingRestart: the members end gracefully and come back
// one after the other, while the cases run.
func TestConformanceAcrossARollingRestart(t *testing.T) {
	c := etcdcluster.Run(t, 3, etcdcluster.Options{NoSync: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	restarts := 0
	go func() {
		for i := 0; i < 3 && ctx.Err() == nil; i++ {
			if err := c.Restart(ctx, i); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			restarts++
			// The next only when the cluster has settled, as one does.
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
			}
		}
		ended <- nil
	}()
	t.Cleanup(func() { // after the parallel cases, before the cluster is closed
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		t.Logf("%d restarts meanwhile", restarts)
		if restarts < 3 {
			t.Error("not every member was restarted")
		}
	})
	// A new leader begins every lease anew.
	conformOn(t, c, 10*time.Second, 12*time.Second)
}
