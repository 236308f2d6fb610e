package etcdnode

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestACertificateIsReplacedWhileTheNodeRuns(t *testing.T) {
	c := newCA(t)
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	s.Client = c.sign(10, time.Now().Add(time.Hour))
	s.Peer = s.Client
	s.Name, s.Peers = "a", []Peer{{"a", freePort(t)}}
	n := start(t, s)
	defer stop(t, n)
	connect := func() *clientv3.Client {
		cl, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: []string{s.Listen}, TLS: c.trust()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return cl
	}
	old := connect()
	put(t, old, "k", "1")
	for _, address := range []string{s.Listen, s.Peers[0].Address} {
		if got := c.shown(address); got != 10 {
			t.Errorf("%s shows %d", address, got)
		}
	}
	c.sign(11, time.Now().Add(2*time.Hour))
	for _, address := range []string{s.Listen, s.Peers[0].Address} {
		if got := c.shown(address); got != 11 {
			t.Errorf("%s still shows %d", address, got)
		}
	}
	put(t, old, "k", "2")       // who is connected goes on
	put(t, connect(), "k", "3") // who comes is let in
}

func TestBadCertificatesAreNamedBeforeTheStart(t *testing.T) {
	c := newCA(t)
	good := c.sign(1, time.Now().Add(time.Hour))
	with := func(change func(*Settings)) Settings {
		s := Settings{Data: filepath.Join(t.TempDir(), "data")}
		change(&s)
		return s
	}
	other := newCA(t)
	expired := other.sign(2, time.Now().Add(-time.Hour))
	for want, s := range map[string]Settings{
		"--cert and --key belong together":            with(func(s *Settings) { s.Client.Cert = good.Cert }),
		"--peer-cert: the certificate in":             with(func(s *Settings) { s.Peer = expired }),
		"has expired on":                              with(func(s *Settings) { s.Client = expired }),
		"private key does not match":                  with(func(s *Settings) { s.Client = TLS{Cert: good.Cert, Key: expired.Key} }),
		"--client-ca: there is no certificate in":     with(func(s *Settings) { s.Client = good; s.Client.CA = good.Key }),
		"no such file":                                with(func(s *Settings) { s.Client = TLS{Cert: "/no/cert", Key: "/no/key"} }),
		"that needs --cert and --key (and users)":     with(func(s *Settings) { s.Listen = "0.0.0.0:2379"; s.Advertise = "h:2379" }),
		"needs --peer-cert, --peer-key and --peer-ca": with(func(s *Settings) { s.Name = "a"; s.Peers = []Peer{{"a", "10.1.1.1:2380"}} }),
	} {
		_, err := Start(within(t), s)
		if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestASoonExpiringCertificateIsTold(t *testing.T) {
	c := newCA(t)
	f := c.sign(1, time.Now().Add(20*24*time.Hour))
	if got := f.ageing(time.Now()); got != "" {
		t.Errorf("20 days before: %q", got)
	}
	for after, want := range map[time.Duration]string{10 * 24 * time.Hour: "expires on", 21 * 24 * time.Hour: "has expired"} {
		if got := f.ageing(time.Now().Add(after)); !strings.Contains(got, want) {
			t.Errorf("%v later: %q; want %q", after, got, want)
		}
	}
}

func TestWrongSettingsAreAllNamedAtOnce(t *testing.T) {
	s := Settings{Data: "relative", Listen: "nowhere", Name: "x", Peers: []Peer{{"a", "h"}, {"a", "h"}}, Heartbeat: time.Second, Election: time.Second, Quota: 1}
	err := s.Check()
	for _, want := range []string{"absolute path", "--listen \"nowhere\"", "is none of --peers", "2 nodes", "stands twice", "five times", "quota"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestTheShortestLeaseIsThatOfEtcd(t *testing.T) {
	for _, s := range []Settings{{}, {Election: 2 * time.Second}, {Heartbeat: 30 * time.Millisecond, Election: 500 * time.Millisecond}} {
		s.Data, s.Listen = filepath.Join(t.TempDir(), "data"), freePort(t)
		n := start(t, s)
		g, err := n.Client().Grant(within(t), 1)
		if err != nil || time.Duration(g.TTL)*time.Second != s.MinLease() {
			t.Errorf("election %v: etcd grants %v, %v; we say %v", s.Election, g, err, s.MinLease())
		}
		stop(t, n)
	}
}

func TestAnAddressThatIsNoneIsNamedOnce(t *testing.T) {
	for want, s := range map[string]Settings{
		`--listen "127.0.0.1" is not HOST:PORT`:                        {Listen: "127.0.0.1"},
		`--listen "127.0.0.1:0" has no port from 1 to 65535`:           {Listen: "127.0.0.1:0"},
		`--listen "127.0.0.1:65536" has no port from 1 to 65535`:       {Listen: "127.0.0.1:65536"},
		`--advertise "h:etcd" has no port from 1 to 65535`:             {Advertise: "h:etcd"},
		`the address of a, "127.0.0.1:99999", has no port from 1 to`:   {Name: "a", Peers: []Peer{{"a", "127.0.0.1:99999"}}},
		`--listen-peer "db1:2380": a node listens on an IP address or`: {Name: "a", Peers: []Peer{{"a", "db1:2380"}}, Peer: TLS{}},
	} {
		s.Data = "/data"
		err := s.Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		if err != nil && !strings.Contains(want, "db1") && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than %q: %v", want, err)
		}
	}
}
