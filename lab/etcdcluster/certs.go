package etcdcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// CA signs certificates for tests. Its files are in its folder.
type CA struct {
	File string // its certificate, PEM
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate describes one that a CA signs.
type Certificate struct {
	Name     string    // common name, and the files' name; etcd takes it for the user's
	NotAfter time.Time // zero: long from now
}

var (
	longAgo = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	farAway = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// NewCA makes a CA with its certificate in dir.
func NewCA(dir string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stint lab CA"},
		NotBefore: longAgo, NotAfter: farAway,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	ca := &CA{File: filepath.Join(dir, "ca.pem"), dir: dir, key: key}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return ca, writePEM(ca.File, "CERTIFICATE", der)
}

// Issue makes a certificate for 127.0.0.1 and localhost, for servers and clients
// alike, or replaces the one of that name as a renewal does.
func (ca *CA) Issue(c Certificate) (TLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return TLS{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return TLS{}, err
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = farAway
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: c.Name},
		NotBefore: longAgo, NotAfter: c.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca.cert, key.Public(), ca.key)
	if err != nil {
		return TLS{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return TLS{}, err
	}
	t := TLS{Cert: filepath.Join(ca.dir, c.Name+".pem"), Key: filepath.Join(ca.dir, c.Name+".key"), CA: ca.File}
	if err := writePEM(t.Key, "PRIVATE KEY", secret); err != nil {
		return TLS{}, err
	}
	return t, writePEM(t.Cert, "CERTIFICATE", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
