package etcdlease

import (
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// Servers is a connection to the etcd that a URL names, for those who look after
// it: which nodes there are, users, snapshots. It takes no leases.
type Servers struct {
	Client *clientv3.Client // closed by Close
	Hosts  []string         // host:port, as the URL names them
	Prefix string           // under which leases are kept
	conn   *connection
}

// Dial reads the URL (see the package's comment) and prepares the connection. It
// does not wait for an answer. The error matches authority.ErrInvalid when the
// URL is wrong, or names what cannot be read.
func Dial(rawURL string) (*Servers, error) {
	u, err := authority.ParseURL(rawURL)
	if err != nil || u.Scheme != plainScheme && u.Scheme != tlsScheme {
		return nil, fmt.Errorf("etcdlease: %w: %s is no URL of an etcd; it looks like etcds://host1:2379,host2:2379/prefix?ca=/path/ca.pem",
			authority.ErrInvalid, authority.Redact(rawURL))
	}
	s, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	c, err := newConnection(s)
	if err != nil {
		return nil, err
	}
	return &Servers{Client: c.client, Hosts: slices.Clone(s.hosts), Prefix: s.prefix, conn: c}, nil
}

// Explain says in plain words what an error of Client means.
func (s *Servers) Explain(err error) error { return s.conn.words.explain(err) }

// ExplainRead is Explain for a request that would have changed nothing.
func (s *Servers) ExplainRead(err error) error { return s.conn.words.explainRead(err) }

// Trouble is what is known to be wrong with one of Hosts, in plain words, or nil.
func (s *Servers) Trouble(host string) error {
	w := s.conn.words.wires
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state(host)
}

// Close ends the connection.
func (s *Servers) Close() { s.conn.close() }
