package httpfence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
)

// Options sets up a Handler. The zero value takes the name from the request.
type Options struct {
	// Name says which lease guards what the request is about to change ("" for
	// none: the request goes on unfenced). A request with the token of another
	// name is refused with 400. Without it the request's own header is believed:
	// then a client that names the wrong lease is held back by nobody but the
	// handler, which sees the name in its claim.
	Name func(*http.Request) string
	// Refused, if set, is called with every request that is refused and the whole
	// reason, for logs. The client is told less where the fence's store failed.
	Refused func(r *http.Request, why error)
}

// FromContext is the claim under which the request was admitted: what the handler
// hands to sqlfence.InTx, or to another fence, beside its write. See
// gate.FromContext.
func FromContext(ctx context.Context) (fence.Claim, bool) { return gate.FromContext(ctx) }

// Handler lets requests through to next that carry a token which the fence
// admits, and raises the fence at the first request of each grant. Others are
// answered with a problem document (RFC 9457), and next is not called:
//
//	400  a header cannot be read, or names another lease than Options.Name
//	409  the token is stale, was given out twice, or was not raised; with numbers
//	428  there is no token
//	503  the fence could not be asked, or earlier handlers still run
//	     (gate.Options.Drain); it may be repeated
//
// The handler's context is done when the client goes away and, with
// gate.Options.Drain, when a later holder was let in. A handler that then returns
// without having written anything is answered for with 409.
func Handler(g *gate.Gate, o Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass, err := enter(g, o, r)
		if err != nil {
			refuse(w, r, o, err)
			return
		}
		if pass == nil {
			next.ServeHTTP(w, r)
			return
		}
		defer pass.Leave()
		watched := &response{ResponseWriter: w}
		next.ServeHTTP(watched, r.WithContext(pass.Context()))
		if stale := pass.Overtaken(); stale != nil && !watched.begun {
			refuse(w, r, o, &overtaken{stale})
		}
	})
}

// errName: the token is of another lease than the one that guards the request.
var errName = errors.New("the token is of another lease")

// enter gives no pass for a request that needs none.
func enter(g *gate.Gate, o Options, r *http.Request) (*gate.Pass, error) {
	want := ""
	if o.Name != nil {
		if want = o.Name(r); want == "" {
			return nil, nil
		}
	}
	name, grant, err := ReadHeader(r.Header)
	if err != nil {
		return nil, err
	}
	if want != "" && name != want {
		return nil, fmt.Errorf("%w: it is of %q, and this request is guarded by %q", errName, name, want)
	}
	return g.Enter(r.Context(), name, grant)
}

// overtaken is a request that was under way when a later holder was let in.
type overtaken struct{ stale error }

func (e *overtaken) Error() string {
	return "the request was under way when a later holder was admitted, and was ended; what it had done until then stands: " + e.stale.Error()
}

func (e *overtaken) Unwrap() error { return e.stale }

// response notes whether the handler has begun to answer. What else the writer
// can do (deadlines, say) is found through Unwrap by http.ResponseController.
type response struct {
	http.ResponseWriter
	begun bool
}

func (w *response) WriteHeader(code int) {
	w.begun = w.begun || code >= 200 || code == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(code)
}

func (w *response) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is http.Flusher's.
func (w *response) Flush() { _ = w.FlushError() }

// Hijack is http.Hijacker's. The handler is taken for running until it returns,
// whatever it does with the connection.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
