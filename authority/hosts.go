package authority

import (
	"net/url"
	"strings"
)

// ParseURL is url.Parse, and takes a list of hosts too, each with its own port
// or none: host1:2379,host2 or [::1]:2379,[::2]:2379. The list is left in
// URL.Host as it is written; what its items may be is up to the backend. The
// error repeats rawURL, perhaps with a password: do not show it.
func ParseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err == nil {
		return u, nil
	}
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, err
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	start := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := rest[start:end]
	if !strings.Contains(hosts, ",") || strings.ContainsFunc(hosts, notInHosts) {
		return nil, err
	}
	u, other := url.Parse(scheme + "://" + rest[:start] + "hosts" + rest[end:])
	if other != nil || u.Host != "hosts" {
		return nil, err
	}
	u.Host = hosts
	return u, nil
}

func notInHosts(r rune) bool {
	switch {
	case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return false
	}
	return !strings.ContainsRune("-._:,[]", r)
}
