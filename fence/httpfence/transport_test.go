package httpfence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/httpfence"
)

func TestARequestCarriesTheTokenAndTheName(t *testing.T) {
	var got seen
	s := site(t, &got)
	l := hold(t, job, 12)
	req, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(httpfence.HeaderToken, "1.left") // over from another lease
	resp, err := client(t, l).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	name, g, err := httpfence.ReadHeader(got.headers()[0])
	if err != nil || name != job || g != grant(12) {
		t.Errorf("the server got %q, %v, %v", name, g, err)
	}
	if req.Header.Get(httpfence.HeaderToken) != "1.left" {
		t.Error("the caller's own request was changed")
	}
}

func TestNothingIsSentAfterTheStopTime(t *testing.T) {
	var got seen
	s := site(t, &got)
	l := hold(t, job, 12)
	over := errors.New("the stop time has passed")
	l.cancel(over)
	_, err := client(t, l).Post(s.URL, "text/plain", strings.NewReader("x"))
	if !errors.Is(err, over) || !strings.Contains(err.Error(), "was not sent") {
		t.Errorf("after the stop time: %v", err)
	}
	if n := len(got.headers()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// TestAHandedOverGrantIsOverBeforeAnyTimerHasFired: the process was stopped.
func TestAHandedOverGrantIsOverBeforeAnyTimerHasFired(t *testing.T) {
	var got seen
	s := site(t, &got)
	ctx := fence.WithTimeLeft(t.Context(), func() time.Duration { return 0 })
	_, err := client(t, httpfence.Claim(ctx, fence.Claim{Name: job, Grant: grant(12)})).Post(s.URL, "text/plain", nil)
	if n := len(got.headers()); n != 0 || err == nil || !strings.Contains(err.Error(), "was not sent") {
		t.Errorf("%d requests were sent, %v", n, err)
	}
}

func TestARequestUnderWayEndsAtTheStopTime(t *testing.T) {
	over := errors.New("the stop time has passed")
	arrived := make(chan struct{}, 2)
	s := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" { // the answer has begun, and does not end
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Run("before the answer", func(t *testing.T) {
		l := hold(t, job, 12)
		go func() {
			<-arrived
			l.cancel(over)
		}()
		_, err := client(t, l).Post(s.URL, "text/plain", nil)
		if !errors.Is(err, over) || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("cut off with %v", err)
		}
	})
	t.Run("in the answer", func(t *testing.T) {
		l := hold(t, job, 12)
		resp, err := client(t, l).Post(s.URL+"/slow", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		<-arrived
		l.cancel(over)
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the answer was read to its end")
		}
	})
}

func TestARequestsOwnEndIsNotTakenForTheLeases(t *testing.T) {
	s := site(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client(t, hold(t, job, 12)).Do(req); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "lease") {
		t.Errorf("ended with %v", err)
	}
}

func TestTheTokenNeverGoesToAnotherHost(t *testing.T) {
	var elsewhere seen
	other := site(t, &elsewhere)
	s := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch code := http.StatusTemporaryRedirect; r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/end", code)
		case "/away":
			http.Redirect(w, r, other.URL+"/end", code)
		case "/around": // back from elsewhere is elsewhere no more
			http.Redirect(w, r, "/away", http.StatusSeeOther)
		case "/end":
			if name, g, err := httpfence.ReadHeader(r.Header); err != nil || name != job || g != grant(12) {
				t.Errorf("after a redirect: %q, %v, %v", name, g, err)
			}
		}
	}))
	c := client(t, hold(t, job, 12))
	if code, _ := post(t, c, s.URL+"/here"); code != http.StatusOK {
		t.Errorf("a redirect on the same host: %d", code)
	}
	if _, err := c.Post(s.URL+"/away", "text/plain", strings.NewReader("x")); !errors.Is(err, httpfence.ErrElsewhere) {
		t.Errorf("a write that was redirected to another host: %v", err)
	}
	if n := len(elsewhere.headers()); n != 0 {
		t.Fatalf("the other host was sent %d writes", n)
	}
	for _, path := range []string{"/away", "/around"} {
		resp, err := c.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, h := range elsewhere.headers() {
		if h.Get(httpfence.HeaderToken) != "" || h.Get(httpfence.HeaderName) != "" {
			t.Errorf("the other host was sent %v", h)
		}
	}
	if n := len(elsewhere.headers()); n != 2 {
		t.Errorf("the other host was sent %d reads", n)
	}
}

// answers is a base that gives its requests away, and leaves Response.Request
// empty as some do.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func TestWhatIsTheSameHost(t *testing.T) {
	for to, same := range map[string]bool{
		"http://a.example/x":      true,
		"http://A.EXAMPLE:80/x":   true,
		"https://a.example/x":     true, // the usual step
		"https://a.example:443/":  true,
		"https://a.example:8443/": false,
		"http://a.example:8080/":  false,
		"http://b.example/":       false,
		"http://x.a.example/":     false,
	} {
		stamped := false
		base := answers(func(r *http.Request) *http.Response {
			rec := httptest.NewRecorder()
			if r.Response == nil {
				http.Redirect(rec, r, to, http.StatusFound)
			} else {
				stamped = r.Header.Get(httpfence.HeaderToken) != ""
			}
			resp := rec.Result()
			resp.Request = nil
			return resp
		})
		c := &http.Client{Transport: &httpfence.Transport{Holder: hold(t, job, 12), Base: base}}
		resp, err := c.Get("http://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if stamped != same {
			t.Errorf("from http://a.example to %s: stamped %v", to, stamped)
		}
	}
}

func TestAGrantThatWasHandedOverIsSent(t *testing.T) {
	var got seen
	s := site(t, &got)
	claim, err := fence.Resume(job, grant(12))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, httpfence.Claim(ctx, claim))
	if code, _ := post(t, c, s.URL); code != http.StatusOK {
		t.Errorf("answered with %d", code)
	}
	if name, g, err := httpfence.ReadHeader(got.headers()[0]); err != nil || name != job || g != grant(12) {
		t.Errorf("the server got %q, %v, %v", name, g, err)
	}
	cancel()
	if _, err := c.Get(s.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

func TestATransportWithoutAHolderSaysSo(t *testing.T) {
	c := &http.Client{Transport: &httpfence.Transport{}}
	if _, err := c.Get("http://127.0.0.1:1/"); err == nil || !strings.Contains(err.Error(), "Holder is nil") {
		t.Errorf("without a holder: %v", err)
	}
}
