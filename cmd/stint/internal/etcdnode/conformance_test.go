package etcdnode

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest"
	"github.com/stint-dev/stint/backends/etcdlease"
)

// TestConformance: the suite of all authorities on a node as stint serve runs it,
// with its gate, and with its own care of the disk.
func TestConformance(t *testing.T) {
	n := start(t, fast(t, filepath.Join(t.TempDir(), "data")))
	t.Cleanup(func() { // after the parallel cases, when the test's context has ended
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	open := func(t *testing.T, prefix string) authority.Authority {
		c, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: []string{n.s.Listen}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := etcdlease.New(c, etcdlease.Options{Prefix: prefix, OwnClient: true})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var prefixes atomic.Int64
	authoritytest.Run(t, authoritytest.Subject{
		Forgets: true, Length: 6 * time.Second, Late: time.Second,
		Open: func(t *testing.T) authoritytest.Handle {
			prefix := fmt.Sprintf("suite%d", prefixes.Add(1))
			return authoritytest.Handle{
				Authority: open(t, prefix),
				Peer:      func(t *testing.T) authority.Authority { return open(t, prefix) },
			}
		},
	})
}
