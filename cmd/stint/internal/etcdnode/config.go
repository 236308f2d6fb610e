package etcdnode

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// newCluster is what a cluster's identity is made of, with its nodes' names and
// addresses. It is not etcd's own default, so that a snapshot that was restored
// with etcd's tools is another cluster.
const newCluster = "stint-serve"

// lonely is the address that a single node gives itself; nobody listens there.
const lonely = "127.0.0.1:2380"

// peers are all nodes; a single one is among them.
func (s Settings) peers() []Peer {
	if len(s.Peers) == 0 {
		return []Peer{{s.Name, lonely}}
	}
	return s.Peers
}

func (s Settings) cluster() string {
	var all []string
	for _, p := range s.peers() {
		all = append(all, p.Name+"="+s.peerURL(p).String())
	}
	return strings.Join(all, ",")
}

func (s Settings) peerURL(p Peer) *url.URL { return addressURL(p.Address, s.Peer) }

func (s Settings) self() Peer {
	for _, p := range s.peers() {
		if p.Name == s.Name {
			return p
		}
	}
	return Peer{}
}

func addressURL(address string, t TLS) *url.URL {
	if t.Cert != "" {
		return &url.URL{Scheme: "https", Host: address}
	}
	return &url.URL{Scheme: "http", Host: address}
}

// config translates the settings for etcd. The file is for its HTTP pages
// (health, metrics), which are for this host's user only; apart from them, the
// clients' address speaks gRPC alone.
func (s Settings) config(log *etcdLog, pages string, more ...grpc.ServerOption) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = s.Name, s.Data
	c.TickMs, c.ElectionMs = uint(s.Heartbeat.Milliseconds()), uint(s.Election.Milliseconds())
	c.QuotaBackendBytes = s.Quota
	c.InitialCluster, c.InitialClusterToken = s.cluster(), newCluster
	c.AdvertisePeerUrls = []url.URL{*s.peerURL(s.self())}
	c.ListenPeerUrls = nil
	if s.ListenPeer != "" {
		c.ListenPeerUrls = []url.URL{*addressURL(s.ListenPeer, s.Peer)}
	}
	c.ListenClientUrls = []url.URL{*addressURL(s.Listen, s.Client)}
	c.AdvertiseClientUrls = []url.URL{*addressURL(s.Advertise, s.Client)}
	c.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Path: pages}}
	c.EnableGRPCGateway = false
	c.GRPCAdditionalServerOptions = more
	if s.PasswordCost != 0 {
		c.BcryptCost = s.PasswordCost
	}
	c.ClientTLSInfo = s.Client.info()
	c.ClientTLSInfo.ClientCertAuth = s.Client.CA != ""
	c.PeerTLSInfo = s.Peer.info()
	c.PeerTLSInfo.ClientCertAuth = s.Peer.CA != ""
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.logger())
	return c
}

func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA}
}

// longestSocket is how long the path of a socket may be on every system.
const longestSocket = 100

// pagesSocket is where the HTTP pages are: in the data folder, or in a folder of
// their own if that path is too long.
func pagesSocket(dir string) (path string, remove func(), err error) {
	path = filepath.Join(dir, "http.sock")
	if len(path) <= longestSocket {
		return path, func() { os.Remove(path) }, nil
	}
	dir, err = os.MkdirTemp("", "stint-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "http.sock"), func() { os.RemoveAll(dir) }, nil
}
