package authority

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Opener opens the authority that a URL names. Its Host may be a list: see Open.
// Errors never repeat the URL's password.
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
// and which import brings a missing one. Several hosts are divided by commas,
// each with its own port or none: "etcd://a:2379,b,[::1]:2379/prefix".
func Open(ctx context.Context, rawURL string) (Authority, error) {
	u, err := ParseURL(rawURL)
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

// Redact returns rawURL with everything that may be a password replaced by
// "xxxxx": the one before the host, each query parameter that speaks of a
// secret, and the fragment (an unescaped '#' in a password begins one). What
// does not read as a URL is cut at the scheme; a plain file path stays.
func Redact(rawURL string) string {
	scheme, rest, hasScheme := strings.Cut(rawURL, "://")
	u, err := ParseURL(rawURL)
	switch {
	case err != nil && hasScheme && !secret(scheme):
		return scheme + "://(unreadable)"
	case err != nil, u.Scheme == "" && strings.ContainsAny(rawURL, "=@?#:"):
		return "(unreadable)"
	case u.Opaque != "":
		return u.Scheme + ":xxxxx"
	case !strings.HasPrefix(rest, "/") && strings.Contains(u.Path, "@"): // a password with a '/' in it
		return u.Scheme + "://(unreadable)"
	}
	u.RawQuery = redactQuery(u.RawQuery)
	if u.Fragment != "" {
		u.Fragment, u.RawFragment = "xxxxx", ""
	}
	return u.Redacted()
}

func redactQuery(query string) string {
	if query == "" {
		return ""
	}
	if _, err := url.ParseQuery(query); err != nil {
		return "xxxxx" // where one parameter ends and the next begins is not certain
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(pair)
		switch {
		case err != nil, strings.Contains(plain, "@"), value == "" && secret(plain): // it may be the secret itself
			pairs[i] = "xxxxx"
		case secret(plain):
			pairs[i] = key + "=xxxxx"
		}
	}
	return strings.Join(pairs, "&")
}

func secret(s string) bool {
	s = strings.ToLower(s)
	for _, word := range []string{"pass", "pwd", "secret", "token", "key", "cred", "auth"} {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}
