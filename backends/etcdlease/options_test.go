package etcdlease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// TestAPrefixIsWhatAURLSays: the keys of two prefixes never meet, however they
// were given.
func TestAPrefixIsWhatAURLSays(t *testing.T) {
	client := clientv3.NewCtxClient(context.Background())
	for _, prefix := range []string{
		"/", "p/", "/p", "a//b", "a/../b", "lock", "p/lock", "floor/p", "p/client/q", "a b", "a\x00", "\xff", strings.Repeat("p", 257),
	} {
		if _, err := New(client, Options{Prefix: prefix}); !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("the prefix %q: %v", prefix, err)
		}
	}
	for prefix, want := range map[string]string{"": "stint", "p": "p", "team/stint": "team/stint", "locks": "locks"} {
		if o, err := (Options{Prefix: prefix}).check(); err != nil || o.Prefix != want {
			t.Errorf("the prefix %q became %q, %v", prefix, o.Prefix, err)
		}
	}
	for _, timeout := range []time.Duration{-1, time.Millisecond, time.Hour} {
		if _, err := New(client, Options{Timeout: timeout}); !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("a Timeout of %v: %v", timeout, err)
		}
	}
}
