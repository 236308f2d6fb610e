package etcdlease

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// issuer signs certificates into a folder.
type issuer struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pair tls.Certificate
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	ca := &issuer{dir: t.TempDir()}
	ca.cert, ca.key = ca.issue(t, name, time.Hour)
	return ca
}

func (ca *issuer) path(name string) string { return filepath.Join(ca.dir, name+".pem") }

// issue writes NAME.pem and NAME-key.pem, valid for 127.0.0.1 and for so long.
func (ca *issuer) issue(t *testing.T, name string, lasts time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lasts),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		tpl.IsCA, tpl.KeyUsage, parent, signer = true, x509.KeyUsageCertSign, tpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, ca.path(name), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, ca.path(name+"-key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	ca.pair = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}
	return cert, key
}

// listen answers connections until the test ends, each by f.
func listen(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			group.Go(func() { f(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return l.Addr().String()
}

func serveTLS(cfg *tls.Config) func(net.Conn) {
	cfg.NextProtos = []string{"h2"}
	return func(c net.Conn) {
		s := tls.Server(c, cfg)
		_ = s.Handshake()
		_, _ = s.Read(make([]byte, 1)) // a client hears of its certificate when it reads
		s.Close()
	}
}

func open1(t *testing.T, scheme, addr, query string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := parsed(scheme + "://" + addr + query)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(ctx, s)
	if err == nil {
		c.close()
	}
	return err
}

func TestACertificateThatDoesNotFitFailsInWords(t *testing.T) {
	ours, others := newIssuer(t, "ca"), newIssuer(t, "ca")
	clients := x509.NewCertPool()
	clients.AddCert(ours.cert)
	ours.issue(t, "client", time.Hour)
	ours.issue(t, "old-client", -time.Hour)
	others.issue(t, "client", time.Hour)
	ours.issue(t, "server", time.Hour)
	good := ours.pair
	ours.issue(t, "old", -time.Minute)
	old := ours.pair
	mutual := &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	cert := func(ca *issuer, name string) string {
		return "&cert=" + ca.path(name) + "&key=" + ca.path(name+"-key")
	}
	for _, c := range []struct {
		what   string
		server *tls.Config
		query  string
		want   string
	}{
		{"an unknown authority", &tls.Config{Certificates: []tls.Certificate{good}}, "?ca=" + others.path("ca"), "not in " + others.path("ca")},
		{"the system's authorities", &tls.Config{Certificates: []tls.Certificate{good}}, "", "not in the system's authorities"},
		{"an expired server", &tls.Config{Certificates: []tls.Certificate{old}}, "?ca=" + ours.path("ca"), "the server's certificate has expired"},
		{"another name", &tls.Config{Certificates: []tls.Certificate{good}}, "?server-name=db1&ca=" + ours.path("ca"), "server-name="},
		{"no certificate", mutual.Clone(), "?ca=" + ours.path("ca"), "cert= and key="},
		{"a foreign certificate", mutual.Clone(), "?ca=" + ours.path("ca") + cert(others, "client"), "client's certificate"},
		{"an expired certificate", mutual.Clone(), "?ca=" + ours.path("ca") + cert(ours, "old-client"), "the client's certificate has expired on"},
	} {
		err := open1(t, tlsScheme, listen(t, serveTLS(c.server)), c.query)
		if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
	for _, server := range []*tls.Config{{Certificates: []tls.Certificate{good}}, mutual.Clone()} {
		err := open1(t, plainScheme, listen(t, serveTLS(server)), "")
		if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), "speaks TLS on this port: write etcds://") {
			t.Errorf("TLS that is spoken to plainly: %v", err)
		}
	}
	err := open1(t, tlsScheme, listen(t, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }), "")
	if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), "write etcd://") {
		t.Errorf("TLS to a server without: %v", err)
	}
	for _, query := range []string{"?ca=/nowhere/ca.pem", "?ca=" + ours.path("ca-key"), "?cert=" + ours.path("client") + "&key=" + ours.path("server-key")} {
		if err := open1(t, tlsScheme, "127.0.0.1:1", query); !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("%s: %v does not match ErrInvalid", query, err)
		}
	}
}

func TestChangedFilesAreUsedFromTheNextConnectionOn(t *testing.T) {
	ca := newIssuer(t, "ca")
	ca.issue(t, "client", time.Hour)
	f := &tlsFiles{ca: ca.path("ca"), cert: ca.path("client"), key: ca.path("client-key")}
	leaf := func() *x509.Certificate {
		t.Helper()
		c, err := f.config()
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificates[0].Leaf
	}
	first := leaf()
	keep, err := os.ReadFile(ca.path("client-key"))
	if err != nil {
		t.Fatal(err)
	}
	second, _ := ca.issue(t, "client", 2*time.Hour)
	fresh, err := os.ReadFile(ca.path("client-key"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, ca.path("client-key"), string(keep)) // half of the change
	if got := leaf(); !got.Equal(first) || f.troubled() == nil {
		t.Errorf("between the files: certificate %v, trouble %v", got.SerialNumber, f.troubled())
	}
	write(t, ca.path("client-key"), string(fresh))
	if got := leaf(); !got.Equal(second) || f.troubled() != nil {
		t.Errorf("after both: certificate %v, trouble %v", got.SerialNumber, f.troubled())
	}
}
