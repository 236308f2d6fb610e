package httpfence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	job = "billing/2026-09 für alle, 100%"
	// patience bounds the wait for what must happen.
	patience = 30 * time.Second
)

func grant(t fence.Token) fence.Grant { return fence.Grant{Token: t, Nonce: fmt.Sprintf("n%d", t)} }

// lease is a Holder that a test ends.
type lease struct {
	httpfence.Holder
	cancel context.CancelCauseFunc
}

func hold(t *testing.T, name string, token fence.Token) *lease {
	ctx, cancel := context.WithCancelCause(t.Context())
	return &lease{httpfence.Claim(ctx, fence.Claim{Name: name, Grant: grant(token)}), cancel}
}

// site is a server that ends with the test.
func site(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// client sends with the holder's token, over connections of its own.
func client(t *testing.T, h httpfence.Holder) *http.Client {
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: &httpfence.Transport{Holder: h, Base: base}, Timeout: patience}
}

func door(t *testing.T, f fence.Fence, o gate.Options) *gate.Gate {
	t.Helper()
	g, err := gate.New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// post sends a POST and returns the status and what httpfence says of it.
func post(t *testing.T, c *http.Client, url string) (int, error) {
	t.Helper()
	resp, err := c.Post(url, "text/plain", nil)
	if err != nil {
		t.Error(err)
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, httpfence.Refused(resp)
}

// seen is what a server was sent.
type seen struct {
	mu  sync.Mutex
	all []http.Header
}

func (s *seen) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r.Header)
}

func (s *seen) headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
