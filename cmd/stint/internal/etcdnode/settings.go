// Package etcdnode runs one node of stint's own distributed authority: etcd,
// embedded. It checks what it is told and what it finds before anything is
// served, says in plain words what is wrong, keeps the data small, and stops in
// order. It also makes snapshots, and restores them so that no token is repeated.
package etcdnode

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults of Settings.
const (
	DefaultListen    = "127.0.0.1:2379"
	DefaultHeartbeat = 100 * time.Millisecond
	DefaultElection  = time.Second
	DefaultQuota     = 2 << 30
	DefaultPrefix    = "stint"
)

// Settings are one node's. The zero value of everything but Data is a single
// node that listens on loopback.
type Settings struct {
	Data   string // folder of the node's own; made if it is missing
	Name   string // this node's in Peers; "node" where there are no Peers
	Peers  []Peer // all nodes, this one too; empty: a single node
	Listen string // HOST:PORT for clients; default DefaultListen
	// Advertise is what clients elsewhere reach this node by; default Listen.
	Advertise  string
	ListenPeer string // HOST:PORT for the other nodes; default: this node's entry in Peers

	Client TLS // shown to clients; CA: they have to show a certificate of it, too
	Peer   TLS // shown to the other nodes, and asked of them

	// RootPassword sets up users, if there are none yet: from then on whoever
	// asks has to say who it is.
	RootPassword string

	Heartbeat, Election time.Duration // default DefaultHeartbeat, DefaultElection
	Quota               int64         // bytes of the database; default DefaultQuota
	Log                 *slog.Logger  // nil: nothing is logged
	Verbose             bool          // log what etcd itself has to say, too

	// PasswordCost is that of hashing a password, bcrypt's; default etcd's. Only
	// tests are content with less.
	PasswordCost uint

	old int64 // how many old revisions are kept at most; zero: mostOld
}

// Peer is one node as the others reach it.
type Peer struct{ Name, Address string }

// TLS are files in PEM form. They are read again for each connection, so that a
// certificate can be replaced while the node runs; the CA is read at the start.
type TLS struct{ Cert, Key, CA string }

// IsZero reports whether nothing is set.
func (t TLS) IsZero() bool { return t == TLS{} }

// ParsePeers reads "a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380".
func ParsePeers(s string) ([]Peer, error) {
	var peers []Peer
	for part := range strings.SplitSeq(s, ",") {
		name, address, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" || address == "" {
			return nil, fmt.Errorf("%q is not NAME=HOST:PORT", part)
		}
		peers = append(peers, Peer{name, address})
	}
	return peers, nil
}

// withDefaults fills in what was left out.
func (s Settings) withDefaults() Settings {
	set := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	set(&s.Listen, DefaultListen)
	set(&s.Advertise, s.Listen)
	if len(s.Peers) == 0 {
		set(&s.Name, "node")
	}
	for _, p := range s.Peers {
		if p.Name == s.Name {
			set(&s.ListenPeer, p.Address)
		}
	}
	if s.Heartbeat == 0 {
		s.Heartbeat = DefaultHeartbeat
	}
	if s.Election == 0 {
		s.Election = max(DefaultElection, 10*s.Heartbeat)
	}
	if s.Quota == 0 {
		s.Quota = DefaultQuota
	}
	if s.old == 0 {
		s.old = mostOld
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// MinLease is the shortest lease that nodes of these settings keep, in whole
// seconds: one and a half election timeouts.
func (s Settings) MinLease() time.Duration {
	s = s.withDefaults()
	ticks := int(s.Election / s.Heartbeat)
	shortest := time.Duration(3*ticks/2) * s.Heartbeat
	return time.Duration(math.Ceil(shortest.Seconds())) * time.Second
}

// Beyond reports whether anybody outside this host can reach the node's address
// for clients, or that for nodes.
func (s Settings) beyond() (clients, peers bool) {
	s = s.withDefaults()
	return reachable(s.Listen), s.ListenPeer != "" && reachable(s.ListenPeer)
}

// reachable: from other hosts. What is no address is refused as such.
func reachable(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Check says everything that is wrong with the settings, in one error. Whether
// users are set up is the data's to say: see Start.
func (s Settings) Check() error {
	s = s.withDefaults()
	var wrong []error
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	if !filepath.IsAbs(s.Data) {
		bad("the data folder %q has to be an absolute path", s.Data)
	}
	for flag, address := range map[string]string{"listen": s.Listen, "advertise": s.Advertise, "listen-peer": s.ListenPeer} {
		derived := flag == "advertise" && address == s.Listen || flag == "listen-peer" && address == s.self().Address
		if _, err := splitAddress(address); err != nil && derived {
			continue // said of what it is taken from
		}
		if err := checkAddress(flag, address); address != "" && err != nil {
			wrong = append(wrong, err)
		}
	}
	if host, _, err := net.SplitHostPort(s.Advertise); err == nil {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			bad("nobody can reach this node as %s: give --advertise HOST:PORT", s.Advertise)
		}
	}
	if s.Quota < 16<<20 {
		bad("a quota of %d bytes is too small: at least 16 MiB", s.Quota)
	}
	wrong = append(wrong, s.checkPeers()...)
	wrong = append(wrong, s.checkTimes()...)
	wrong = append(wrong, s.checkReach()...)
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

func checkAddress(flag, address string) error {
	host, err := splitAddress(address)
	if err != nil {
		return fmt.Errorf("--%s %q %w", flag, address, err)
	}
	if flag != "advertise" && host != "localhost" && net.ParseIP(host) == nil {
		return fmt.Errorf("--%s %q: a node listens on an IP address or on localhost; give its name as --advertise, and an address here", flag, address)
	}
	return nil
}

// splitAddress says what is wrong with an address, as in "it ...".
func splitAddress(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return "", errors.New("is not HOST:PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 { // 0 would be another one each time
		return "", errors.New("has no port from 1 to 65535")
	}
	return host, nil
}

func (s Settings) checkPeers() (wrong []error) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	if len(s.Peers) == 0 {
		if s.ListenPeer != "" {
			bad("--listen-peer is for several nodes: give --peers, or leave it out")
		}
		return wrong
	}
	if n := len(s.Peers); n != 1 && n != 3 && n != 5 {
		bad("%d nodes: there are 1, 3 or 5; an even number stops as soon as one less does, and more than 5 only make every write slower", n)
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, p := range s.Peers {
		if names[p.Name] || addresses[p.Address] {
			bad("%s=%s stands twice in --peers, by its name or by its address", p.Name, p.Address)
		}
		names[p.Name], addresses[p.Address] = true, true
		if _, err := splitAddress(p.Address); err != nil {
			bad("--peers: the address of %s, %q, %w", p.Name, p.Address, err)
		}
	}
	if !names[s.Name] {
		bad("--name %q is none of --peers: it says which of them this node is", s.Name)
	}
	return wrong
}

func (s Settings) checkTimes() (wrong []error) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	whole := func(d time.Duration) bool { return d > 0 && d%time.Millisecond == 0 }
	switch {
	case !whole(s.Heartbeat) || !whole(s.Election):
		bad("--heartbeat %v and --election %v have to be whole milliseconds", s.Heartbeat, s.Election)
	case s.Election < 5*s.Heartbeat:
		bad("--election %v is shorter than five times --heartbeat %v: a busy moment would cost the leader its place", s.Election, s.Heartbeat)
	case s.Election > 50*time.Second:
		bad("--election %v is longer than 50s: nobody would be granted anything for as long after a failure", s.Election)
	}
	return wrong
}

// checkReach: beyond loopback nothing goes without TLS.
func (s Settings) checkReach() (wrong []error) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	clients, peers := s.beyond()
	if clients && s.Client.Cert == "" {
		bad("--listen %s can be reached from other hosts: that needs --cert and --key (and users), or listen on loopback", s.Listen)
	}
	if peers && (s.Peer.Cert == "" || s.Peer.CA == "") {
		bad("the other nodes reach this one at %s: that needs --peer-cert, --peer-key and --peer-ca, so that nobody else passes for a node", s.ListenPeer)
	}
	wrong = append(wrong, s.Client.check("")...)
	return append(wrong, s.Peer.check("peer-")...)
}
