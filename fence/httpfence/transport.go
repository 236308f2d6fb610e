package httpfence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// Holder is whose token is sent. *stint.Lease is one; Claim makes one of a grant
// that was handed over.
type Holder interface {
	Name() string
	Grant() fence.Grant
	// Err is nil while the lease is inside its stop time.
	Err() error
	// Context is done when the lease is over, at its stop time at the latest.
	Context() context.Context
}

// Claim is the Holder of a name and a grant that another process holds (STINT_NAME
// and STINT_GRANT, say). It is over when ctx is (fence.Over): who hands a grant over
// also says until when, best by ending ctx.
func Claim(ctx context.Context, c fence.Claim) Holder { return claimed{ctx, c} }

type claimed struct {
	ctx   context.Context
	claim fence.Claim
}

func (c claimed) Name() string             { return c.claim.Name }
func (c claimed) Grant() fence.Grant       { return c.claim.Grant }
func (c claimed) Err() error               { return fence.Over(c.ctx) }
func (c claimed) Context() context.Context { return c.ctx }

// Transport stamps every request with the holder's token and name. It is an
// http.RoundTripper, safe for concurrent use. Make one for each lease; they may
// share Base and its connections.
//
// After the stop time nothing is sent: the error is the holder's. A request that
// is under way at the stop time is cut off, and so is the reading of its answer;
// whether the server carried it out is then unknown.
//
// The token goes to the host of the request and no further. Where http.Client
// follows a redirect to another scheme, host or port, a GET, HEAD, OPTIONS or
// TRACE goes on without the token, and any other method fails with
// ErrElsewhere: it would be a write without a fence.
type Transport struct {
	// Holder is required.
	Holder Holder
	// Base sends the requests. Default http.DefaultTransport.
	Base http.RoundTripper
}

// ErrElsewhere: a request with a token was redirected to another host, and not
// sent there.
var ErrElsewhere = errors.New("the fenced request was redirected to another host")

// RoundTrip is http.RoundTripper's.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Holder == nil {
		closeBody(req)
		return nil, errors.New("httpfence: Transport.Holder is nil: set it to the lease")
	}
	first := original(req)
	elsewhere := first == nil || !sameHost(first.URL, req.URL)
	if elsewhere && !safe(req.Method) {
		closeBody(req)
		return nil, fmt.Errorf("httpfence: %w: %s %s was not sent, because its token is for the host that was asked first. "+
			"Ask the right host, if it is the one that keeps the fence", ErrElsewhere, req.Method, req.URL.Redacted())
	}
	if err := t.Holder.Err(); err != nil {
		closeBody(req)
		return nil, fmt.Errorf("httpfence: %s %s was not sent: the lease is over: %w", req.Method, req.URL.Redacted(), err)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	over := context.AfterFunc(t.Holder.Context(), func() { cancel(t.reason()) })
	end := func() {
		over()
		cancel(context.Canceled)
	}
	stamped := req.Clone(ctx)
	stamped.Header.Del(HeaderToken)
	stamped.Header.Del(HeaderName)
	if !elsewhere {
		SetHeader(stamped.Header, t.Holder.Name(), t.Holder.Grant())
	}
	resp, err := t.base().RoundTrip(stamped)
	if err != nil {
		err = cutOff(ctx, req, err)
		end()
		return nil, err
	}
	// http.Client finds the first request of a chain of redirects through it.
	resp.Request = req
	resp.Body = bounded(resp.Body, end)
	return resp, nil
}

// cutOff says what it means that the lease ended under a request.
func cutOff(ctx context.Context, req *http.Request, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || req.Context().Err() != nil {
		return err
	}
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return fmt.Errorf("httpfence: %s %s was cut off because the lease is over; whether it was carried out is unknown: %w", req.Method, req.URL.Redacted(), err)
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// reason is why the lease is over.
func (t *Transport) reason() error {
	if err := t.Holder.Err(); err != nil {
		return err
	}
	return context.Cause(t.Holder.Context())
}

// CloseIdleConnections is for http.Client's method of the same name.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// original is the request that began a chain of redirects; nil when a link is
// missing, and then nobody knows whose host it was.
func original(req *http.Request) *http.Request {
	for req.Response != nil {
		if req = req.Response.Request; req == nil {
			return nil
		}
	}
	return req
}

// sameHost also takes the step from http to https on the usual ports.
func sameHost(a, b *url.URL) bool {
	if !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	pa, pb := port(a), port(b)
	return a.Scheme == b.Scheme && pa == pb || a.Scheme == "http" && pa == "80" && b.Scheme == "https" && pb == "443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// closeBody: a RoundTripper closes the body, also when it fails.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// bounded calls end when the body is closed. The body of a protocol
// that was switched to can be written too, and stays so.
func bounded(body io.ReadCloser, end func()) io.ReadCloser {
	b := &ending{body, end}
	if w, ok := body.(io.Writer); ok {
		return struct {
			*ending
			io.Writer
		}{b, w}
	}
	return b
}

type ending struct {
	io.ReadCloser
	end func()
}

func (b *ending) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
