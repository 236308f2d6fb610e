package authority

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Opener opens the authority that a URL names. Errors never repeat the URL's
// password.
type Opener func(ctx context.Context, u *url.URL) (Authority, error)

var (
	openersMu sync.Mutex
	openers   = map[string]Opener{}
)

// Register makes a URL scheme known to Open; backends call it when they are
// imported. Registering a scheme twice panics.
func Register(scheme string, open Opener) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if _, ok := openers[scheme]; ok {
		panic("authority: scheme " + scheme + " was registered twice")
	}
	openers[scheme] = open
}

// Schemes lists the registered URL schemes in order.
func Schemes() []string {
	openersMu.Lock()
	defer openersMu.Unlock()
	var all []string
	for s := range openers {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// Open opens the authority that rawURL names, for example
// "sqlite:///var/lib/stint/leases.db". The error says which schemes are known
// and which import brings a missing one.
func Open(ctx context.Context, rawURL string) (Authority, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error repeats its input, and with it a password.
		return nil, fmt.Errorf("authority: %w: the URL %q cannot be read; it looks like scheme://host/path", ErrInvalid, Redact(rawURL))
	}
	if u.Scheme == "" {
		return nil, fmt.Errorf("authority: %w: %q has no scheme; a file is written sqlite:///path/leases.db", ErrInvalid, Redact(rawURL))
	}
	openersMu.Lock()
	open := openers[u.Scheme]
	openersMu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("authority: %w: no backend for %q is linked in (there are: %s); import its package, as in "+
			"import _ \"github.com/stint-dev/stint/backends/sqlite/sqlitelease\"", ErrInvalid, u.Scheme+"://", orNone(Schemes()))
	}
	return open(ctx, u)
}

func orNone(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

// Redact returns rawURL with its password, and every query parameter whose name
// speaks of a secret, replaced by "xxxxx". What cannot be parsed is cut at the
// scheme.
func Redact(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		scheme, _, ok := strings.Cut(rawURL, "://")
		if !ok {
			return "(unreadable)"
		}
		return scheme + "://(unreadable)"
	}
	q := u.Query()
	for k := range q {
		if secret(k) {
			q.Set(k, "xxxxx")
		}
	}
	if len(q) > 0 {
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

func secret(key string) bool {
	k := strings.ToLower(key)
	for _, word := range []string{"pass", "pwd", "secret", "token", "key"} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return false
}
