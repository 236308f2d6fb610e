package etcdlease

import (
	"context"
	"crypto/tls"
	"errors"
	"time"
)

// probeWait is how long a server may take to greet a probe.
const probeWait = time.Second

// probe finds out whether a server that closed a plain connection without an
// answer, as a TLS server does, speaks TLS: then no plain request will ever be
// answered there. It sends nothing but the greeting of TLS, and believes nothing
// but that the server has shown a certificate.
func (c *wire) probe(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	shown := false
	d := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection: func(tls.ConnectionState) error {
			shown = true
			return errors.New("that is all that was asked")
		},
	}}
	if conn, err := d.DialContext(ctx, "tcp", c.server); err == nil {
		conn.Close()
	}
	if shown {
		return errSpeaksTLS
	}
	return err
}

var errSpeaksTLS = &mendError{errors.New("the server speaks TLS on this port: write etcds:// in place of etcd://")}
