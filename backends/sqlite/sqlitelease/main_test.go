package sqlitelease

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/authority"
)

// TestMain lets the test binary be one of several processes: see process_test.go.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

type fakeClock struct{ now atomic.Int64 }

func newFakeClock() *fakeClock {
	c := &fakeClock{}
	c.now.Store(int64(time.Hour)) // no machine reads zero
	return c
}

func (c *fakeClock) Now() authority.Instant  { return authority.Instant(c.now.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.now.Add(int64(d)) }

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "leases.db") }

func openAt(t testing.TB, path string, o Options) *Authority {
	t.Helper()
	a, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func ask(name, nonce string, length time.Duration) authority.Request {
	return authority.Request{Name: name, Length: length, Nonce: nonce, Holder: "h-" + nonce}
}

func mustAcquire(t testing.TB, a authority.Authority, r authority.Request) authority.Grant {
	t.Helper()
	g, err := a.Acquire(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
