package etcdlease

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tlsFiles are the files of a connection by TLS. They are read anew for each
// connection, so a certificate that was changed is used from the next one on.
// While they do not fit together (the certificate is new, its key is still the
// old one), those that did last are used.
type tlsFiles struct {
	ca, cert, key string // paths; empty: the system's authorities, no client certificate
	serverName    string // in the servers' certificates; empty: the host that was dialled

	mu      sync.Mutex
	last    *tls.Config
	trouble error // why the files could not be used, the last time
}

// config reads the files.
func (f *tlsFiles) config() (*tls.Config, error) {
	c, err := f.load()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
	if err == nil {
		f.last = c
	} else if f.last != nil {
		c, err = f.last, nil
	}
	return c, err
}

func (f *tlsFiles) load() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("the certificates of the authorities (ca=): %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the certificates of the authorities (ca=): %s holds no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate (cert=%s and key=%s): %w", f.cert, f.key, err)
		}
		// Always this one, also when the server asks for one of another
		// authority: then it says what is wrong with it.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// troubled says why the files could not be used the last time, or nil.
func (f *tlsFiles) troubled() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble
}

// handshakes makes connections of etcd's client, with TLS or without, and tells
// wires of them.
type handshakes struct {
	credentials.TransportCredentials // of the kind that is used: for Info
	files                            *tlsFiles
	wires                            *wires
}

func newHandshakes(files *tlsFiles, w *wires) *handshakes {
	if files == nil {
		return &handshakes{insecure.NewCredentials(), nil, w}
	}
	return &handshakes{credentials.NewTLS(nil), files, w}
}

// ClientHandshake is called for each connection.
func (h *handshakes) ClientHandshake(ctx context.Context, server string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	with := h.TransportCredentials
	if h.files != nil {
		c, err := h.files.config()
		if err == nil {
			err = expired(c, time.Now())
		}
		if err != nil {
			h.wires.failed(server, &mendError{err})
			return nil, nil, err
		}
		with = credentials.NewTLS(c)
	}
	name := server
	if h.files != nil && h.files.serverName != "" {
		name = h.files.serverName // NewTLS takes it from here alone
	}
	conn, info, err := with.ClientHandshake(ctx, name, raw)
	if err != nil {
		err = tlsWords(err, h.files)
		h.wires.failed(server, err)
		return nil, nil, err
	}
	return h.wires.opened(server, raw, conn, h.files != nil), info, nil
}

// Clone is what it is: there is nothing in it that a user of it may change.
func (h *handshakes) Clone() credentials.TransportCredentials { return h }

// expired says that the client's own certificate is not valid now. The server
// would refuse it with less to go by.
func expired(c *tls.Config, now time.Time) error {
	for _, pair := range c.Certificates {
		leaf := pair.Leaf
		if leaf == nil {
			continue
		}
		if now.After(leaf.NotAfter) {
			return fmt.Errorf("the client's certificate has expired on %s; put a new one in its place (no restart is needed)", leaf.NotAfter.UTC().Format(time.DateTime))
		}
		if now.Before(leaf.NotBefore) {
			return fmt.Errorf("the client's certificate is valid only from %s on (is this host's clock right?)", leaf.NotBefore.UTC().Format(time.DateTime))
		}
	}
	return nil
}
