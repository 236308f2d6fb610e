package etcdlease

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-dev/stint/authority"
)

const (
	plainScheme   = "etcd"
	tlsScheme     = "etcds"
	defaultPort   = "2379"
	defaultPrefix = "stint"
	maxPrefix     = 256
)

// settings are what a URL says.
type settings struct {
	hosts          []string // host:port, as dialled
	prefix         string
	user, password source
	tls            *tlsFiles // nil: none
}

// parameters that a URL may have, in the order in which they are told.
var parameters = []string{"ca", "cert", "key", "server-name", "user-file", "user-env", "password-file", "password-env"}

// tlsParameters are those that only etcds:// has.
var tlsParameters = parameters[:4]

// parseURL reads etcd://[user[:password]@]host[:port][,…][/prefix][?…]. It is
// strict: what it does not know it refuses, instead of leaving it out.
func parseURL(u *url.URL) (settings, error) {
	s, err := readURL(u)
	if err != nil {
		return settings{}, fmt.Errorf("etcdlease: %w: %s: %w; it looks like etcds://host1:2379,host2:2379/prefix?ca=/path/ca.pem",
			authority.ErrInvalid, authority.Redact(u.String()), err)
	}
	return s, nil
}

func readURL(u *url.URL) (settings, error) {
	var s settings
	if u.Opaque != "" {
		return s, fmt.Errorf("after %q two slashes are missing", u.Scheme+":")
	}
	if u.Fragment != "" {
		return s, fmt.Errorf("there is no fragment (a '#' in a password is written %%23)")
	}
	var err error
	if s.hosts, err = readHosts(u.Host); err != nil {
		return s, err
	}
	if s.prefix, err = readPrefix(u); err != nil {
		return s, err
	}
	query, err := readQuery(u.RawQuery)
	if err != nil {
		return s, err
	}
	if u.Scheme != tlsScheme {
		for _, p := range tlsParameters {
			if _, ok := query[p]; ok {
				return s, fmt.Errorf("%s= is for connections by TLS: write %s:// in place of %s://", p, tlsScheme, u.Scheme)
			}
		}
	} else if s.tls, err = readTLS(query); err != nil {
		return s, err
	}
	return s, s.readUser(u, query)
}

func readHosts(list string) ([]string, error) {
	if list == "" {
		return nil, fmt.Errorf("it names no host")
	}
	var hosts []string
	for item := range strings.SplitSeq(list, ",") {
		h, err := readHost(item)
		if err != nil {
			return nil, err
		}
		if slices.Contains(hosts, h) {
			return nil, fmt.Errorf("the host %s is named twice", h)
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// readHost returns host:port of host, host:port, [IPv6] or [IPv6]:port.
func readHost(item string) (string, error) {
	host, port, hasPort := strings.Cut(item, ":")
	if rest, ok := strings.CutPrefix(item, "["); ok {
		var after string
		if host, after, ok = strings.Cut(rest, "]"); !ok {
			return "", fmt.Errorf("the host %q has a '[' and no ']'", item)
		}
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", fmt.Errorf("%q is no IPv6 address without a zone", host)
		}
		host = "[" + host + "]"
		if port, hasPort = strings.CutPrefix(after, ":"); !hasPort && after != "" {
			return "", fmt.Errorf("the host %q goes on after its ']'", item)
		}
	} else if strings.Contains(port, ":") {
		return "", fmt.Errorf("the host %q has several ':'; an IPv6 address is written [::1]:2379", item)
	} else if host == "" || strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return "", fmt.Errorf("%q is no host name", host)
	}
	if !hasPort {
		return host + ":" + defaultPort, nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '+' {
		return "", fmt.Errorf("%q is no port (1 to 65535)", port)
	}
	return host + ":" + port, nil
}

func readPrefix(u *url.URL) (string, error) {
	p := strings.TrimPrefix(u.Path, "/")
	if p == "" {
		return defaultPrefix, nil
	}
	if strings.Contains(strings.ToUpper(u.RawPath), "%2F") {
		return "", fmt.Errorf("the prefix has an escaped slash: its parts are divided by plain ones")
	}
	return p, checkPrefix(p)
}

// checkPrefix says what is wrong with a prefix, or nil. The keys of two
// prefixes never meet: P/lock/… is only P's, because no part of a prefix may be
// called as the parts below it are.
func checkPrefix(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("the prefix is empty")
	case len(p) > maxPrefix:
		return fmt.Errorf("the prefix has %d bytes: at most %d", len(p), maxPrefix)
	case !utf8.ValidString(p):
		return fmt.Errorf("the prefix %q is not valid UTF-8", p)
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return fmt.Errorf("the prefix %q has a space or a control character in it", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case "":
			return fmt.Errorf("the prefix %q begins or ends with a slash, or has two together", p)
		case ".", "..":
			return fmt.Errorf("the prefix %q has the part %q: etcd's keys know no folders", p, part)
		case "lock", "floor", "client":
			return fmt.Errorf("the prefix %q has the part %q, which is what the keys below a prefix begin with", p, part)
		}
	}
	return nil
}

func readQuery(raw string) (map[string]string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the parameters after '?' cannot be read: '%%' is written %%25, and '&' divides them")
	}
	query := map[string]string{}
	for name, all := range values {
		switch {
		case !slices.Contains(parameters, name):
			return nil, fmt.Errorf("unknown parameter %q; there are: %s", name, strings.Join(parameters, ", "))
		case len(all) > 1:
			return nil, fmt.Errorf("%s= is there twice", name)
		case all[0] == "":
			return nil, fmt.Errorf("%s= says nothing", name)
		case needsPath(name) && !filepath.IsAbs(all[0]):
			return nil, fmt.Errorf("%s= names a relative path, which would be another file in every working directory", name)
		}
		query[name] = all[0]
	}
	return query, nil
}

func needsPath(parameter string) bool {
	return strings.HasSuffix(parameter, "-file") || slices.Contains(tlsParameters[:3], parameter)
}

func readTLS(query map[string]string) (*tlsFiles, error) {
	f := &tlsFiles{ca: query["ca"], cert: query["cert"], key: query["key"], serverName: query["server-name"]}
	if (f.cert == "") != (f.key == "") {
		return nil, fmt.Errorf("cert= and key= belong together: the client's certificate and its private key")
	}
	return f, nil
}

// readUser takes user and password from at most one place each.
func (s *settings) readUser(u *url.URL, query map[string]string) error {
	var name, password string
	if u.User != nil {
		name = u.User.Username()
		password, _ = u.User.Password()
	}
	var err error
	if s.user, err = oneSource("user", name, query); err != nil {
		return err
	}
	if s.password, err = oneSource("password", password, query); err != nil {
		return err
	}
	switch {
	case s.user.set() && !s.password.set():
		return fmt.Errorf("there is a user without a password: add password-file= or password-env= (a user that comes from the client's certificate is not written in the URL)")
	case !s.user.set() && s.password.set():
		return fmt.Errorf("there is a password without a user: add user-file= or user-env=, or write user@ before the host")
	case u.User != nil && !s.user.set():
		return fmt.Errorf("the user before '@' is empty")
	}
	return nil
}

func oneSource(what, value string, query map[string]string) (source, error) {
	s := source{value: value, file: query[what+"-file"], env: query[what+"-env"]}
	n := 0
	for _, v := range []string{s.value, s.file, s.env} {
		if v != "" {
			n++
		}
	}
	if n > 1 {
		return source{}, fmt.Errorf("the %s comes from two places: name one of the URL itself, %s-file= and %s-env=", what, what, what)
	}
	return s, nil
}
