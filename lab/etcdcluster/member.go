package etcdcluster

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// settings are what a member's process is told.
type settings struct {
	Options         Options
	Name, Dir, Log  string
	PeerURL         string // advertised: its gate
	ClientURL       string // advertised: its gate
	Peers           string // name=URL,… of all members
	Token           string
	PeerTLS, Client TLS
}

// member is what runs in a member's process.
type member struct {
	etcd    *embed.Etcd
	counts  *counts
	control net.Listener
	server  *http.Server
}

func startMember(s settings) (*member, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	m := &member{counts: newCounts()}
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.StatsHandler(m.counts)}
	if m.etcd, err = embed.StartEtcd(cfg); err != nil {
		return nil, err
	}
	if m.control, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		m.etcd.Close()
		return nil, err
	}
	m.server = &http.Server{Handler: m.handler()}
	go m.server.Serve(m.control)
	return m, nil
}

func (m *member) close() {
	m.server.Close()
	m.etcd.Close()
}

func (m *member) report() report {
	return report{
		Peer:    m.etcd.Peers[0].Addr().String(),
		Client:  m.etcd.Clients[0].Addr().String(),
		Control: m.control.Addr().String(),
	}
}

// config is the member's configuration. It listens wherever there is a port.
func (s settings) config() (*embed.Config, error) {
	o := s.Options
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = s.Name, s.Dir
	cfg.InitialCluster, cfg.InitialClusterToken = s.Peers, s.Token
	cfg.TickMs, cfg.ElectionMs = milliseconds(o.Heartbeat), milliseconds(o.Election)
	cfg.QuotaBackendBytes = o.Quota
	cfg.AuthTokenTTL = uint(o.AuthTokenTTL / time.Second)
	cfg.BcryptCost = 4 // the least that bcrypt takes: passwords of tests need no defence
	cfg.EnableGRPCGateway = false
	cfg.Metrics = "extensive"
	cfg.LogLevel, cfg.LogOutputs = "warn", []string{s.Log}
	cfg.UnsafeNoFsync = o.NoSync
	cfg.ClientTLSInfo, cfg.PeerTLSInfo = s.Client.info(), s.PeerTLS.info()
	var err error
	for urls, raw := range map[*[]url.URL]string{
		&cfg.ListenPeerUrls:      s.PeerTLS.scheme() + "://127.0.0.1:0",
		&cfg.ListenClientUrls:    s.Client.scheme() + "://127.0.0.1:0",
		&cfg.AdvertisePeerUrls:   s.PeerURL,
		&cfg.AdvertiseClientUrls: s.ClientURL,
	} {
		if *urls, err = parseURL(raw); err != nil {
			return nil, err
		}
	}
	if o.FeatureGates != "" {
		gate, ok := cfg.ServerFeatureGate.(featuregate.MutableFeatureGate)
		if !ok {
			return nil, fmt.Errorf("etcdcluster: this etcd's feature gates cannot be set")
		}
		if err := gate.Set(o.FeatureGates); err != nil {
			return nil, fmt.Errorf("etcdcluster: feature gates %q: %w", o.FeatureGates, err)
		}
	}
	return cfg, nil
}

func milliseconds(d time.Duration) uint { return uint(d / time.Millisecond) }

func parseURL(raw string) ([]url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	return []url.URL{*u}, nil
}

func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA, ClientCertAuth: t.ClientCerts,
	}
}

func (t TLS) scheme() string {
	if t.Cert == "" {
		return "http"
	}
	return "https"
}
