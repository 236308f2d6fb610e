package etcdtests

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// conform runs the suite, each case under a prefix of its own. Whoever lets a
// lease run out may delete it a request after its end.
func conform(t *testing.T, dial func() (*clientv3.Client, error)) {
	open := func(t *testing.T, prefix string) authority.Authority {
		client, err := dial()
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
		Forgets: true, Length: 4 * time.Second, Late: time.Second,
		Open: func(t *testing.T) authoritytest.Handle {
			prefix := fmt.Sprintf("suite%d", prefixes.Add(1))
			return authoritytest.Handle{
				Authority: open(t, prefix),
				Peer:      func(t *testing.T) authority.Authority { return open(t, prefix) },
			}
		},
	})
}

func TestConformanceOnOneMember(t *testing.T) {
	c := etcdcluster.Run(t, 1, etcdcluster.Options{NoSync: true})
	conform(t, func() (*clientv3.Client, error) { return clientv3.New(c.ClientConfig(c.Endpoints())) })
}

// TestConformanceInTheProcessOfTheServer: through function calls, without a
// connection.
func TestConformanceInTheProcessOfTheServer(t *testing.T) {
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.TickMs, cfg.ElectionMs = 50, 500
	nowhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = nowhere, nowhere
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	conform(t, func() (*clientv3.Client, error) { return v3client.New(e.Server), nil })
}
