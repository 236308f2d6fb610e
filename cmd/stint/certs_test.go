package main

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
	"testing"
	"time"
)

// issuer signs certificates for loopback into the world's folder.
type issuer struct {
	*world
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (w *world) issuer() *issuer {
	w.t.Helper()
	i := &issuer{world: w, key: newKey(w.t)}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	i.cert = i.sign("ca.pem", about, about, i.key)
	return i
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (i *issuer) sign(file string, about, by *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	i.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, about, by, key.Public(), i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	i.put(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert
}

// put writes a file at once, as whoever replaces one does.
func (w *world) put(name string, text []byte) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name+".new"), text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.path(name+".new"), w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

// node writes a node's certificate and key, over what is there.
func (i *issuer) node(name string, serial int64) {
	i.t.Helper()
	key := newKey(i.t)
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	i.put(name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	i.sign(name+".pem", &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "node " + name}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, i.cert, key)
}

// shown is the serial number of the certificate that an address shows; 0 while
// there is none.
func (i *issuer) shown(address string) int64 {
	pool := x509.NewCertPool()
	pool.AddCert(i.cert)
	serial := int64(0)
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}, VerifyConnection: func(s tls.ConnectionState) error {
		serial = s.PeerCertificates[0].SerialNumber.Int64()
		return nil
	}})
	if err == nil {
		conn.Close()
	}
	return serial
}
