package etcdtests

import (
	"cmp"
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

// suite is how the conformance suite is run. Whoever lets a lease run out may
// delete it a request after its end, or when etcd comes to it (late). Leases are
// long beside what a busy machine takes for the requests between two renewals of
// one, half a length apart.
type suite struct {
	dial         func() (*clientv3.Client, error)
	wrap         func(*etcdlease.Authority) authority.Authority // nil: as it is
	length, late time.Duration                                  // 14 s and 3 s if zero
}

func dialing(c *etcdcluster.Cluster) func() (*clientv3.Client, error) {
	return func() (*clientv3.Client, error) { return clientv3.New(c.ClientConfig(c.Endpoints())) }
}

func (s suite) open(t *testing.T, prefix string) authority.Authority {
	client, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	a, err := etcdlease.New(client, etcdlease.Options{Prefix: prefix, OwnClient: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.wrap != nil {
		return s.wrap(a)
	}
	return a
}

// run runs the suite, each case under a prefix of its own.
func (s suite) run(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{
		Forgets: true, Length: cmp.Or(s.length, 14*time.Second), Late: cmp.Or(s.late, 3*time.Second),
		Open: func(t *testing.T) authoritytest.Handle {
			prefix := fmt.Sprintf("suite%d", prefixes.Add(1))
			return authoritytest.Handle{
				Authority: s.open(t, prefix),
				Peer:      func(t *testing.T) authority.Authority { return s.open(t, prefix) },
			}
		},
	})
}

func TestConformanceOnOneMember(t *testing.T) {
	t.Parallel()
	suite{dial: dialing(etcdcluster.Run(t, 1, etcdcluster.Options{NoSync: true}))}.run(t)
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
	suite{dial: func() (*clientv3.Client, error) { return v3client.New(e.Server), nil }}.run(t)
}
