package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

func TestAStaleTokenIsRefusedWithBothNumbers(t *testing.T) {
	ran := 0
	s := site(t, httpfence.Handler(door(t, fence.NewMemory(), gate.Options{}), httpfence.Options{},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ran++
			if c, ok := httpfence.FromContext(r.Context()); !ok || c.Name != job || c.Grant != grant(c.Grant.Token) {
				t.Errorf("the handler is given %v, %v", c, ok)
			}
		})))
	for _, token := range []fence.Token{7, 12, 12} {
		if code, err := post(t, client(t, hold(t, job, token)), s.URL); code != http.StatusOK || err != nil {
			t.Errorf("token %d: %d, %v", token, code, err)
		}
	}
	resp, err := client(t, hold(t, job, 7)).Post(s.URL, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	refused := httpfence.Refused(resp)
	var doc map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil { // still readable
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusConflict || resp.Header.Get("Content-Type") != "application/problem+json" ||
		doc["status"] != 409.0 || doc["presented"] != 7.0 || doc["fence"] != 12.0 || doc["name"] != job ||
		doc["type"] != httpfence.ProblemType+"stale" || doc["title"] == "" || doc["outcome"] != nil {
		t.Errorf("%d %v\n%v", resp.StatusCode, resp.Header, doc)
	}
	var r *httpfence.RefusedError
	if !errors.Is(refused, fence.ErrStale) || errors.Is(refused, fence.ErrUnknown) || !errors.As(refused, &r) || r.Problem.Fence != 12 || r.Temporary() {
		t.Errorf("the client sees %v", refused)
	}
	if ran != 3 {
		t.Errorf("the handler ran %d times", ran)
	}
}

// call sends a request with these headers and returns the document.
func call(t *testing.T, url, token, name string) (int, httpfence.Problem, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for field, v := range map[string]string{httpfence.HeaderToken: token, httpfence.HeaderName: name} {
		if v != "" {
			req.Header.Set(field, v)
		}
	}
	base := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: base, Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p httpfence.Problem
	if len(text) > 0 {
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return resp.StatusCode, p, string(text)
}

func TestEveryRefusalSaysWhatIsWrong(t *testing.T) {
	m := fence.NewMemory()
	if _, err := m.Raise(t.Context(), "billing", grant(12)); err != nil {
		t.Fatal(err)
	}
	ran := false
	var told []error
	s := site(t, httpfence.Handler(door(t, m, gate.Options{CheckOnly: true}), httpfence.Options{
		Name: func(r *http.Request) string {
			return strings.TrimPrefix(r.URL.Path, "/")
		},
		Refused: func(_ *http.Request, why error) { told = append(told, why) },
	}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true })))
	for _, c := range []struct {
		path, token, name string
		code              int
		kind              string
		words             []string
	}{
		{"/billing", "", "", 428, "missing", []string{"Fencing-Token", "Fencing-Name"}},
		{"/billing", "12.n12", "", 428, "missing", []string{"Fencing-Name"}},
		{"/billing", "12", "billing", 400, "malformed", []string{"token.nonce"}},
		{"/billing", "weak-12.n12", "billing", 400, "malformed", []string{"same token twice"}},
		{"/billing", "12.n12", "bill%zzing", 400, "malformed", []string{"hexadecimal"}},
		{"/billing", "12.n12", "report", 400, "wrong-name", []string{"report", "billing"}},
		{"/billing", "7.n7", "billing", 409, "stale", []string{"7", "12"}},
		{"/billing", "12.other", "billing", 409, "repeated", []string{"restored without a bump?"}},
		{"/billing", "13.n13", "billing", 409, "not-raised", []string{"12", "13"}},
		{"/report", "13.n13", "report", 409, "not-raised", []string{"nobody raised it"}},
		{"/billing", "12.n12", "billing", 200, "", nil},
		{"/", "", "", 200, "", nil}, // guarded by nothing
	} {
		ran = false
		before := len(told)
		code, p, text := call(t, s.URL+c.path, c.token, c.name)
		if code != c.code || ran != (code == 200) || c.kind != "" && (p.Type != httpfence.ProblemType+c.kind || p.Status != code || p.Title == "") {
			t.Errorf("%s %q %q: %d, ran %v, %s", c.path, c.token, c.name, code, ran, text)
		}
		for _, w := range c.words {
			if !strings.Contains(p.Detail, w) {
				t.Errorf("%s %q %q: the detail does not say %q: %s", c.path, c.token, c.name, w, p.Detail)
			}
		}
		if (len(told) > before) != (code != 200) {
			t.Errorf("%s %q %q: told %v", c.path, c.token, c.name, told[before:])
		}
		if strings.Contains(text, "n12") && !strings.Contains(c.token, "n12") {
			t.Errorf("the admitted grant is given away: %s", text)
		}
	}
}

type failing struct{ fence.Fence }

func (failing) Check(context.Context, fence.Claim) error {
	return errors.New("dial tcp 10.0.0.7: secret")
}

func TestAFenceThatCannotBeAskedIs503AndTellsNothingElse(t *testing.T) {
	s := site(t, httpfence.Handler(door(t, failing{fence.NewMemory()}, gate.Options{}), httpfence.Options{},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })))
	resp, err := client(t, hold(t, job, 7)).Post(s.URL, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var r *httpfence.RefusedError
	if why := httpfence.Refused(resp); !errors.As(why, &r) || !r.Temporary() || strings.Contains(why.Error(), "secret") {
		t.Errorf("the client is told %v", why)
	}
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// TestAdmittedInOrderWritesMayLandOutOfOrder shows what the handler alone does
// not promise: 7 is let in, 12 is let in and writes, then 7 writes.
func TestAdmittedInOrderWritesMayLandOutOfOrder(t *testing.T) {
	m := fence.NewMemory()
	var mu sync.Mutex
	var plain, fenced []fence.Token
	in, on := make(chan struct{}), make(chan struct{})
	s := site(t, httpfence.Handler(door(t, m, gate.Options{}), httpfence.Options{},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := httpfence.FromContext(r.Context())
			if c.Grant.Token == 7 {
				close(in)
				<-on // paused between the check and the write
			}
			mu.Lock()
			defer mu.Unlock()
			plain = append(plain, c.Grant.Token) // to a file, say
			err := m.Do(r.Context(), c, func() error {
				fenced = append(fenced, c.Grant.Token)
				return nil
			})
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})))
	late := make(chan int)
	go func() {
		code, _ := post(t, client(t, hold(t, job, 7)), s.URL)
		late <- code
	}()
	<-in
	if code, err := post(t, client(t, hold(t, job, 12)), s.URL); code != http.StatusOK {
		t.Errorf("12: %d, %v", code, err)
	}
	close(on)
	if code := <-late; code != http.StatusConflict {
		t.Errorf("7's own write under the fence was answered with %d", code)
	}
	if fmt.Sprint(plain) != "[12 7]" || fmt.Sprint(fenced) != "[12]" {
		t.Errorf("without a fence %v, with one %v", plain, fenced)
	}
}

func TestDrainKeepsTheOrderOfEffects(t *testing.T) {
	var mu sync.Mutex
	var file []fence.Token
	in := make(chan struct{})
	s := site(t, httpfence.Handler(door(t, fence.NewMemory(), gate.Options{Drain: patience}), httpfence.Options{},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c, _ := httpfence.FromContext(r.Context())
			if c.Grant.Token == 7 {
				close(in)
				<-r.Context().Done()
				if !errors.Is(context.Cause(r.Context()), fence.ErrStale) {
					t.Errorf("7 was ended because of %v", context.Cause(r.Context()))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			file = append(file, c.Grant.Token)
		})))
	late := make(chan error)
	go func() {
		_, err := post(t, client(t, hold(t, job, 7)), s.URL)
		late <- err
	}()
	<-in
	if code, err := post(t, client(t, hold(t, job, 12)), s.URL); code != http.StatusOK {
		t.Errorf("12: %d, %v", code, err)
	}
	// 7 wrote no answer of its own: it is not told 200, and knows that what it did stands.
	if err := <-late; !errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrUnknown) {
		t.Errorf("7 is told %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(file) != "[7 12]" {
		t.Errorf("the effects are in the order %v", file)
	}
}

func TestAHandlerThatIgnoresItsEndKeepsLaterOnesOut(t *testing.T) {
	in, on := make(chan struct{}), make(chan struct{})
	s := site(t, httpfence.Handler(door(t, fence.NewMemory(), gate.Options{Drain: time.Millisecond}), httpfence.Options{},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, _ := httpfence.FromContext(r.Context()); c.Grant.Token == 7 {
				close(in)
				<-on
				w.WriteHeader(http.StatusAccepted) // it did not notice
			}
		})))
	late := make(chan int)
	go func() {
		code, _ := post(t, client(t, hold(t, job, 7)), s.URL)
		late <- code
	}()
	<-in
	twelve := client(t, hold(t, job, 12))
	code, err := post(t, twelve, s.URL)
	var r *httpfence.RefusedError
	if code != http.StatusServiceUnavailable || !errors.As(err, &r) || !r.Temporary() || fmt.Sprint(r.Problem.Running) != "[7]" {
		t.Errorf("12, beside 7: %d, %v", code, err)
	}
	close(on)
	if code := <-late; code != http.StatusAccepted {
		t.Errorf("7's own answer became %d", code)
	}
	for started := time.Now(); ; time.Sleep(time.Millisecond) { // 7 may still be leaving
		if code, err = post(t, twelve, s.URL); code == http.StatusOK {
			break
		}
		if time.Since(started) > patience {
			t.Fatalf("12, after 7: %d, %v", code, err)
		}
	}
}

func TestAHandlerCanFlushAndTakeOverTheConnection(t *testing.T) {
	s := site(t, httpfence.Handler(door(t, fence.NewMemory(), gate.Options{}), httpfence.Options{},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)); err != nil {
				t.Error(err)
			}
			if r.URL.Path != "/hijack" {
				_, _ = io.WriteString(w, "a")
				w.(http.Flusher).Flush()
				return
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 299 Mine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		})))
	c := client(t, hold(t, job, 7))
	for path, want := range map[string]int{"/": 200, "/hijack": 299} {
		if code, err := post(t, c, s.URL+path); code != want || err != nil {
			t.Errorf("%s: %d, %v", path, code, err)
		}
	}
}

func TestAnAnswerOfSomebodyElseIsNoRefusal(t *testing.T) {
	for kind, body := range map[string]string{
		"text/plain":               "stale",
		"application/problem+json": `{"type":"https://example.org/mine","status":409}`,
		"application/json":         `{"type":"` + httpfence.ProblemType + `stale"}`,
		"":                         "",
	} {
		s := site(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, body)
		}))
		resp, err := client(t, hold(t, job, 7)).Post(s.URL, "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := httpfence.Refused(resp); err != nil {
			t.Errorf("%s %s: %v", kind, body, err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
			t.Errorf("afterwards the body is %q, %v", got, err)
		}
		resp.Body.Close()
	}
}

func FuzzProblem(f *testing.F) {
	f.Add("application/problem+json", `{"type":"`+httpfence.ProblemType+`stale","presented":7,"fence":12}`)
	f.Add("application/problem+json;x", `{`)
	f.Fuzz(func(t *testing.T, kind, body string) {
		resp := &http.Response{StatusCode: 409, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
		err := httpfence.Refused(resp)
		if got, _ := io.ReadAll(resp.Body); string(got) != body {
			t.Fatalf("the body became %q", got)
		}
		if err != nil && !strings.Contains(err.Error(), "409") {
			t.Fatal(err)
		}
	})
}
