package etcdlease

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/authority"
)

// parsed reads a URL as authority.Open does.
func parsed(raw string) (settings, error) {
	u, err := authority.ParseURL(raw)
	if err != nil {
		return settings{}, err
	}
	return parseURL(u)
}

func TestWhatAURLMayBe(t *testing.T) {
	pw := func(u, p source) settings {
		return settings{hosts: []string{"a:2379"}, prefix: "stint", user: u, password: p}
	}
	for raw, want := range map[string]settings{
		"etcd://a":                           {hosts: []string{"a:2379"}, prefix: "stint"},
		"etcd://a/":                          {hosts: []string{"a:2379"}, prefix: "stint"},
		"etcd://a:1,b:2/team/stint":          {hosts: []string{"a:1", "b:2"}, prefix: "team/stint"},
		"etcd://[::1]:4,b,c:6/p":             {hosts: []string{"[::1]:4", "b:2379", "c:6"}, prefix: "p"},
		"etcd://[2001:db8::2]/p":             {hosts: []string{"[2001:db8::2]:2379"}, prefix: "p"},
		"etcd://a/%C3%BCber":                 {hosts: []string{"a:2379"}, prefix: "über"},
		"etcd://u:p%40w%2F@a":                pw(source{value: "u"}, source{value: "p@w/"}),
		"etcd://u@a?password-file=/s/pw":     pw(source{value: "u"}, source{file: "/s/pw"}),
		"etcd://a?user-env=U&password-env=P": pw(source{env: "U"}, source{env: "P"}),
	} {
		got, err := parsed(raw)
		if err != nil || !slices.Equal(got.hosts, want.hosts) || got.prefix != want.prefix || got.user != want.user || got.password != want.password || got.tls != nil {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
	}
	got, err := parsed("etcds://a:1?ca=/c&cert=/d&key=/e&server-name=f")
	if err != nil || got.tls == nil || got.tls.ca != "/c" || got.tls.cert != "/d" || got.tls.key != "/e" || got.tls.serverName != "f" {
		t.Errorf("TLS: got %+v, %v", got.tls, err)
	}
}

func TestWhatAURLMayNotBeIsRefusedInWords(t *testing.T) {
	for raw, want := range map[string]string{
		"etcd:a:2379":                          "two slashes are missing",
		"etcd://":                              "names no host",
		"etcd:///p":                            "names no host",
		"etcd://a,,b/":                         "is no host name",
		"etcd://a,a:2379":                      "is named twice",
		"etcd://a:0":                           "is no port",
		"etcd://a:65536":                       "is no port",
		"etcd://::1:2379":                      "several ':'",
		"etcd://a_b!c":                         "is no host name",
		"etcd://[fe80::1%25eth0]":              "without a zone",
		"etcd://a/p/":                          "slash",
		"etcd://a//p":                          "slash",
		"etcd://a/p%2Fq":                       "escaped slash",
		"etcd://a/p%20q":                       "a space",
		"etcd://a/p%00":                        "control character",
		"etcd://a/%ff":                         "not valid UTF-8",
		"etcd://a/../p":                        "no folders",
		"etcd://a/stint/lock":                  "begin with",
		"etcd://a/" + strings.Repeat("p", 257): "at most 256",
		"etcd://a/p?prefix=q":                  `unknown parameter "prefix"; there are: ca, cert, key, server-name, user-file`,
		"etcd://a/p?ca=/c":                     "write etcds://",
		"etcd://a/p?insecure":                  "unknown parameter",
		"etcds://a/p?ca=c":                     "relative path",
		"etcds://a/p?ca=":                      "says nothing",
		"etcds://a/p?ca=/c&ca=/d":              "twice",
		"etcds://a/p?cert=/c":                  "belong together",
		"etcd://a?user-env=U;password-env=P":   "cannot be read",
		"etcd://u@a":                           "a user without a password",
		"etcd://u:@a":                          "a user without a password",
		"etcd://:hunter2@a":                    "a password without a user",
		"etcd://@a":                            "before '@' is empty",
		"etcd://u:hunter2@a?user-env=U":        "comes from two places",
		"etcd://u:hunter2@a?password-env=U":    "comes from two places",
		"etcd://u:hunter2#x@a":                 "",
		"etcd://u:hunter2@a#x":                 "no fragment",
	} {
		_, err := parsed(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
			continue
		}
		if want != "" && !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("%s: %v does not match ErrInvalid", raw, err)
		}
		if want != "" && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the password: %v", raw, err)
		}
	}
}

// FuzzURL: whatever a URL says, what is read of it can be dialled and kept
// below its prefix, and no error tells the password.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{"a", "a:1,b:2/p", "[::1]:2/p?user-env=U&password-env=P", "a?ca=/c&cert=/d&key=/e", "a/p?x=hunter2", "a%zz", "a/lock", ""} {
		f.Add("u:hunter2@", rest, true)
		f.Add("", rest, false)
	}
	f.Fuzz(func(t *testing.T, user, rest string, secure bool) {
		scheme := plainScheme
		if secure {
			scheme = tlsScheme
		}
		u, err := authority.ParseURL(scheme + "://" + user + rest)
		if err != nil {
			return
		}
		s, err := parseURL(u)
		if err != nil {
			if !errors.Is(err, authority.ErrInvalid) {
				t.Fatalf("%v does not match ErrInvalid", err)
			}
			if password, _ := u.User.Password(); len(password) > 5 && strings.Contains(err.Error(), password) && !strings.Contains(rest, password) {
				t.Fatalf("the error tells the password %q: %v", password, err)
			}
			return
		}
		for _, h := range s.hosts {
			if host, port, err := net.SplitHostPort(h); err != nil || host == "" || port == "" {
				t.Fatalf("%q cannot be dialled: %v", h, err)
			}
		}
		if len(s.hosts) == 0 || checkPrefix(s.prefix) != nil || s.user.set() != s.password.set() || (s.tls != nil) != secure {
			t.Fatalf("read %+v", s)
		}
	})
}
