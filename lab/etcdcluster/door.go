package etcdcluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Door is one client's own way into the cluster: an address for each member, with
// a link of its own behind it. Cutting it off leaves other clients alone.
type Door struct {
	Links  []*Link // by member
	fronts []*front
}

// Door opens a further way into the cluster; Close closes it.
func (c *Cluster) Door() (*Door, error) {
	c.changes.Lock() // no member may move meanwhile
	defer c.changes.Unlock()
	if c.closed {
		return nil, errClosed
	}
	d := &Door{}
	for i := range c.members {
		l := newLink()
		f, err := newFront([]*Link{l}, func(net.Conn) *Link { return l })
		if err != nil {
			d.close()
			return nil, err
		}
		d.Links, d.fronts = append(d.Links, l), append(d.fronts, f)
		if p := c.process(i); p != nil {
			f.aim(p.report.Client)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doors = append(c.doors, d)
	return d, nil
}

// Endpoints are the addresses, host:port, by member.
func (d *Door) Endpoints() []string {
	var all []string
	for _, f := range d.fronts {
		all = append(all, f.address())
	}
	return all
}

// Each calls f with every link.
func (d *Door) Each(f func(*Link)) {
	for _, l := range d.Links {
		f(l)
	}
}

func (d *Door) close() {
	for _, f := range d.fronts {
		f.close()
	}
}

func (c *Cluster) allDoors() []*Door {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.doors)
}

func (c *Cluster) frontsOf(i int) []*front {
	var all []*front
	for _, d := range c.allDoors() {
		all = append(all, d.fronts[i])
	}
	return all
}

// Endpoints are the addresses, host:port, that the members advertise to clients,
// by member.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, n := range c.members {
		all = append(all, n.client.address())
	}
	return all
}

// ClientConfig is the configuration of a client that comes in at the given
// endpoints, in the name of root where there are users.
func (c *Cluster) ClientConfig(endpoints []string) clientv3.Config { return c.config(c.o, endpoints) }

func (c *Cluster) config(o Options, endpoints []string) clientv3.Config {
	cfg := clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if o.RootPassword != "" {
		cfg.Username, cfg.Password = "root", o.RootPassword
	}
	if o.TLS.Cert != "" {
		cfg.TLS = &tls.Config{GetClientCertificate: o.ClientTLS.certificate, RootCAs: o.ClientTLS.pool(), MinVersion: tls.VersionTLS12}
	}
	return cfg
}

// certificate is read when the server asks for it.
func (t TLS) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if t.Cert == "" {
		return &tls.Certificate{}, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("etcdcluster: the client's certificate: %w", err)
	}
	return &pair, nil
}

// pool trusts the CA alone; nobody, when its file cannot be read.
func (t TLS) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	if pem, err := os.ReadFile(t.CA); err == nil {
		pool.AppendCertsFromPEM(pem)
	}
	return pool
}
