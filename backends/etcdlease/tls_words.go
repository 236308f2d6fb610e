package etcdlease

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// mendError is a failure that trying again does not mend: somebody has to change
// a certificate, the URL, or what listens there.
type mendError struct{ err error }

func (e *mendError) Error() string { return e.err.Error() }
func (e *mendError) Unwrap() error { return e.err }

// tlsWords says in plain words why a handshake failed.
func tlsWords(err error, files *tlsFiles) error {
	var (
		invalid  x509.CertificateInvalidError
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		noTLS    tls.RecordHeaderError
		because  string
		from     = "the system's authorities"
		mismatch = errors.As(err, &name)
	)
	if files != nil && files.ca != "" {
		from = files.ca
	}
	switch {
	case mismatch:
		because = "the server's certificate is not for the name by which it was called; name the right one by server-name="
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		because = "the server's certificate has expired or is not valid yet"
	case errors.As(err, &invalid):
		because = "the server's certificate is not valid for this"
	case errors.As(err, &unknown):
		because = "the server's certificate is of an authority that is not in " + from + "; name the right one by ca="
	case errors.As(err, &noTLS):
		because = "the server does not speak TLS on this port; write etcd:// in place of etcds:// if that is right"
	default:
		if w := alertWords(err); w != "" {
			return &mendError{fmt.Errorf("%s (%w)", w, err)}
		}
		return plainWords(err)
	}
	return &mendError{fmt.Errorf("%s (%w)", because, err)}
}

// alertWords reads what a server says of the client's certificate. With TLS 1.3
// it comes after the client's side of the handshake has ended.
func alertWords(err error) string {
	if err == nil || !strings.Contains(err.Error(), "remote error: tls: ") {
		return ""
	}
	_, alert, _ := strings.Cut(err.Error(), "remote error: tls: ")
	switch {
	case strings.HasPrefix(alert, "expired certificate"):
		return "the server refuses the client's certificate as expired"
	case strings.HasPrefix(alert, "unknown certificate authority"):
		return "the server does not know the authority of the client's certificate"
	case strings.HasPrefix(alert, "certificate required"):
		return "the server asks for a client's certificate; name one by cert= and key="
	case strings.HasPrefix(alert, "bad certificate"), strings.HasPrefix(alert, "unknown certificate"),
		strings.HasPrefix(alert, "unsupported certificate"), strings.HasPrefix(alert, "revoked certificate"):
		return "the server refuses the client's certificate, or asks for one that was not named by cert= and key="
	}
	return ""
}

// plainWords says why a connection could not be made, without the addresses that
// the caller names anyway.
func plainWords(err error) error {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host of that name (%w)", err)
	case errors.As(err, &dns):
		return fmt.Errorf("its name cannot be looked up (%w)", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection refused: nothing listens there")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("it does not answer")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("it closes the connection without an answer")
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return fmt.Errorf("it does not answer")
	}
	return err
}
