package etcdnode

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// check says what is wrong with the files; flag is what their flags begin with.
func (t TLS) check(flag string) (wrong []error) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	if (t.Cert == "") != (t.Key == "") {
		bad("--%scert and --%skey belong together", flag, flag)
		return wrong
	}
	if t.CA != "" {
		if t.Cert == "" {
			bad("--%s needs --%scert and --%skey", caFlag(flag), flag, flag)
		}
		text, err := os.ReadFile(t.CA)
		switch {
		case err != nil:
			bad("--%s: %w", caFlag(flag), err)
		case !x509.NewCertPool().AppendCertsFromPEM(text):
			bad("--%s: there is no certificate in %s", caFlag(flag), t.CA)
		}
	}
	if t.Cert == "" {
		return wrong
	}
	leaf, err := t.leaf()
	now := time.Now()
	switch {
	case err != nil:
		bad("--%scert and --%skey: %w", flag, flag, err)
	case now.After(leaf.NotAfter):
		bad("--%scert: the certificate in %s has expired on %s: replace it", flag, t.Cert, leaf.NotAfter.Format(time.DateTime))
	case now.Before(leaf.NotBefore):
		bad("--%scert: the certificate in %s is valid only from %s on: is this host's clock right?", flag, t.Cert, leaf.NotBefore.Format(time.DateTime))
	}
	return wrong
}

// caFlag: the CA of clients is --client-ca.
func caFlag(flag string) string {
	if flag == "" {
		return "client-ca"
	}
	return flag + "ca"
}

// leaf reads the certificate as it is now.
func (t TLS) leaf() (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		return nil, errors.New("there is no certificate in " + t.Cert)
	}
	return pair.Leaf, nil
}

// soon is how long before a certificate expires a node begins to say so.
const soon = 14 * 24 * time.Hour

// ageing says that a certificate needs to be replaced, or cannot be read any
// more, or "".
func (t TLS) ageing(now time.Time) string {
	if t.Cert == "" {
		return ""
	}
	leaf, err := t.leaf()
	switch {
	case err != nil:
		return "the certificate cannot be used any more, and nobody new is let in: " + err.Error()
	case now.After(leaf.NotAfter):
		return "the certificate in " + t.Cert + " has expired, and nobody new is let in: replace the file, the node reads it again by itself"
	case now.Add(soon).After(leaf.NotAfter):
		return "the certificate in " + t.Cert + " expires on " + leaf.NotAfter.Format(time.DateTime) + ": replace the file, the node reads it again by itself"
	}
	return ""
}
