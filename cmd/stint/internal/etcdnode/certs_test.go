package etcdnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ca signs certificates for loopback.
type ca struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T) *ca {
	t.Helper()
	c := &ca{t: t, dir: t.TempDir()}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	c.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, c.key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.write("ca.pem", "CERTIFICATE", der)
	return c
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (c *ca) file(name string) string { return filepath.Join(c.dir, name) }

func (c *ca) write(name, kind string, der []byte) {
	c.t.Helper()
	if err := os.WriteFile(c.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// sign writes a certificate and its key, over what is there.
func (c *ca) sign(serial int64, until time.Time) TLS {
	c.t.Helper()
	key := newKey(c.t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Unix(0, 0), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.cert, key.Public(), c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("node.pem", "CERTIFICATE", der)
	c.write("node.key", "EC PRIVATE KEY", private)
	return TLS{Cert: c.file("node.pem"), Key: c.file("node.key"), CA: c.file("ca.pem")}
}

// trust is a client's side, which shows the present certificate too.
func (c *ca) trust() *tls.Config {
	c.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(c.cert)
	own, err := tls.LoadX509KeyPair(c.file("node.pem"), c.file("node.key"))
	if err != nil {
		c.t.Fatal(err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"}}
}

// shown is the serial number of the certificate that an address shows.
func (c *ca) shown(address string) int64 {
	c.t.Helper()
	conn, err := tls.Dial("tcp", address, c.trust())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}
