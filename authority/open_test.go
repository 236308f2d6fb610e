package authority_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-dev/stint/authority"
	_ "github.com/stint-dev/stint/authority/memlease"
)

func TestOpenSaysWhatIsWrongWithAURL(t *testing.T) {
	for raw, want := range map[string]string{
		"":                           "no scheme",
		"leases.db":                  "sqlite:///path/leases.db",
		"/var/lib/leases.db":         "no scheme",
		"nosuch://host/x":            "no backend for \"nosuch://\"",
		"etcd://u:hunter2@host:port": "cannot be read",
		"etcd://u:hunter2@host/%zz":  "cannot be read",
		"etcd://u:hunter2@host/a":    "there are: mem",
		"://hunter2":                 "cannot be read",
	} {
		_, err := authority.Open(t.Context(), raw)
		if !errors.Is(err, authority.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want ErrInvalid with %q", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells the password: %v", raw, err)
		}
	}
}

func TestOpenOpensARegisteredScheme(t *testing.T) {
	a, err := authority.Open(t.Context(), "mem:")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenTakesAListOfHosts(t *testing.T) {
	var got string
	authority.Register("hosts", func(_ context.Context, u *url.URL) (authority.Authority, error) {
		got = u.Host + " " + u.Path
		return nil, errors.New("opened")
	})
	for raw, want := range map[string]string{
		"hosts://a:1,b:2/p":               "a:1,b:2 /p",
		"hosts://a:1,b/p":                 "a:1,b /p",
		"hosts://a,b:2":                   "a,b:2 ",
		"hosts://[::1]:1,[::2]/p?x=1":     "[::1]:1,[::2] /p",
		"hosts://u:p%2Fw@a,[::2]:3,c:4/p": "a,[::2]:3,c:4 /p",
		"hosts://a:1,b c:2/p":             "",
		"hosts://a:1,b%zz:2/p":            "",
		"hosts://a:x/p":                   "",
	} {
		got = ""
		_, err := authority.Open(t.Context(), raw)
		if got != want || (want == "") != errors.Is(err, authority.ErrInvalid) {
			t.Errorf("%s: opened %q (%v), want %q", raw, got, err, want)
		}
	}
}

func TestRegisteringASchemeTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the second Register of \"mem\" went through")
		}
	}()
	authority.Register("mem", func(context.Context, *url.URL) (authority.Authority, error) { return nil, nil })
}

func TestRedactKeepsWhatPeopleNeed(t *testing.T) {
	for raw, want := range map[string]string{
		"sqlite:///var/lib/stint/leases.db":                     "sqlite:///var/lib/stint/leases.db",
		"etcd://u:hunter2@a:1,b:2/p":                            "etcd://u:xxxxx@a:1,b:2/p",
		"pg://h/db?password=hunter2&sslmode=on":                 "pg://h/db?password=xxxxx&sslmode=on",
		"pg://h/db?sslPassWord=hunter2":                         "pg://h/db?sslPassWord=xxxxx",
		"s3://b?secret_access_key=hunter2":                      "s3://b?secret_access_key=xxxxx",
		"etcd://hunter2:%zz@h":                                  "etcd://(unreadable)",
		"pg://h/db?sslmode=on;password=hunter2":                 "pg://h/db?xxxxx",
		"pg://h/db?a=1&password=hunt%zzer2":                     "pg://h/db?xxxxx",
		"postgres:user:hunter2":                                 "postgres:xxxxx",
		"user=u password=hunter2 host=h":                        "(unreadable)",
		"sqlite:///x?_pragma=busy_timeout(1)#hunter2":           "sqlite:///x?_pragma=busy_timeout(1)#xxxxx",
		"etcd://u:hunter2@[::1]:1,[::2],c:3/p?password-file=/x": "etcd://u:xxxxx@[::1]:1,[::2],c:3/p?password-file=xxxxx",
		"etcd://u:hunter2@a:1,b,c/p":                            "etcd://u:xxxxx@a:1,b,c/p",
		"leases.db":                                             "leases.db",
		"etcd://u:1/hunter2@h/p":                                "etcd://(unreadable)",
	} {
		if got := authority.Redact(raw); got != want {
			t.Errorf("Redact(%q) = %q, want %q", raw, got, want)
		}
	}
}

// FuzzRedact: whatever the URL looks like, the password does not get through.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"etcd", "s3+x", "", "a b", "1"} {
		f.Add(s, "u", "h/p?x=1", "password")
	}
	f.Fuzz(func(t *testing.T, scheme, user, rest, key string) {
		const password = "hunter2hunter2"
		if strings.Contains(scheme+user+rest+key, "hunter") {
			return
		}
		for _, raw := range []string{
			scheme + "://" + user + ":" + password + "@" + rest,
			scheme + "://" + rest + "?password=" + password,
			scheme + "://h/p?" + key + "=1&db_passwd=" + password,
		} {
			if u, err := url.Parse(raw); err == nil && u.User == nil && !strings.Contains(u.RawQuery, password) {
				continue // it stands in the host or the path: not where a password goes
			}
			if got := authority.Redact(raw); strings.Contains(got, password) {
				t.Errorf("Redact(%q) = %q", raw, got)
			}
		}
	})
}
