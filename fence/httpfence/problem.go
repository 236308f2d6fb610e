package httpfence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
)

// ProblemType is what the types of the problems begin with; docs/http.md lists
// them. It identifies, and need not be fetched.
const ProblemType = "https://github.com/stint-dev/stint/blob/main/docs/http.md#"

// Problem is the document (RFC 9457) with which a request is refused.
type Problem struct {
	Type   string `json:"type"` // ProblemType and one word
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Name      string        `json:"name,omitempty"`      // of the lease
	Presented fence.Token   `json:"presented,omitempty"` // the token that was refused
	Fence     fence.Token   `json:"fence,omitempty"`     // the fence that refused it
	Running   []fence.Token `json:"running,omitempty"`   // of the handlers that are waited for
	// Outcome is "unknown" where the request may have been carried out in part.
	// Otherwise a refused request has changed nothing.
	Outcome string `json:"outcome,omitempty"`
}

// The words after ProblemType.
const (
	kindStale       = "stale"
	kindRepeated    = "repeated"
	kindNotRaised   = "not-raised"
	kindMissing     = "missing"
	kindMalformed   = "malformed"
	kindWrongName   = "wrong-name"
	kindDraining    = "draining"
	kindUnavailable = "unavailable"
)

// problem chooses what a client is told. The nonce of the grant that is admitted
// is left out: who has the whole grant string can write with it.
func problem(err error) Problem {
	var stale *fence.StaleError
	var repeated *fence.RepeatedError
	var busy *gate.BusyError
	var late *overtaken
	p := Problem{Status: http.StatusConflict}
	kind := ""
	switch {
	case errors.As(err, &stale):
		kind, p.Title = kindStale, "A later holder has been admitted"
		p.Detail = stale.Error()
		p.Name, p.Presented, p.Fence = stale.Name, stale.Presented, stale.Fence
		if errors.As(err, &late) {
			p.Outcome = "unknown"
			p.Detail = fmt.Sprintf("fence %q: the request of token %d was under way when token %d was admitted, and was ended. What it had done until then stands. "+
				"This holder has lost its lease: stop, and discard what is in memory", p.Name, p.Presented, p.Fence)
		}
	case errors.As(err, &repeated):
		kind, p.Title = kindRepeated, "The authority has given out one token twice"
		p.Name, p.Presented, p.Fence = repeated.Name, repeated.Presented.Token, repeated.Admitted.Token
		p.Detail = fmt.Sprintf("fence %q: token %d was already admitted for another grant. Was the authority restored without a bump? "+
			"Nothing was written; raise the authority's counter above %d before going on", p.Name, p.Presented, p.Presented)
	case errors.Is(err, fence.ErrNotRaised), errors.Is(err, fence.ErrNoFence):
		kind, p.Title, p.Detail = kindNotRaised, "The fence has not been raised", err.Error()
	case errors.Is(err, ErrMissing):
		kind, p.Title, p.Detail = kindMissing, "A fencing token is required", err.Error()
		p.Status = http.StatusPreconditionRequired
	case errors.Is(err, ErrMalformed), errors.Is(err, errName):
		kind, p.Title, p.Detail = kindMalformed, "The fencing token cannot be read", err.Error()
		if errors.Is(err, errName) {
			kind, p.Title = kindWrongName, "The fencing token is of another lease"
		}
		p.Status = http.StatusBadRequest
	case errors.As(err, &busy):
		kind, p.Title, p.Detail = kindDraining, "Handlers of earlier holders still run", busy.Error()
		p.Status, p.Name, p.Presented, p.Running = http.StatusServiceUnavailable, busy.Name, busy.Token, busy.Running
	default:
		kind, p.Title, p.Status = kindUnavailable, "The fence could not be asked", http.StatusServiceUnavailable
		p.Detail = "Whether the token is still good is not known, so the request was not run. It may be repeated"
	}
	p.Type = ProblemType + kind
	return p
}

func refuse(w http.ResponseWriter, r *http.Request, o Options, why error) {
	if o.Refused != nil {
		o.Refused(r, why)
	}
	p := problem(why)
	body, err := json.Marshal(p)
	if err != nil { // numbers and strings
		body = []byte("{}")
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store") // it is about this holder, at this moment
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone away is told nothing
}

// RefusedError is a refusal as the client sees it. It matches fence.ErrStale,
// fence.ErrRepeated and fence.ErrNotRaised as the server's own error did, and
// fence.ErrUnknown where the request may have been carried out in part.
type RefusedError struct{ Problem Problem }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("httpfence: refused with %d: %s: %s", e.Problem.Status, e.Problem.Title, e.Problem.Detail)
}

// Is matches the errors of package fence.
func (e *RefusedError) Is(target error) bool {
	switch target {
	case fence.ErrStale:
		return e.is(kindStale)
	case fence.ErrRepeated:
		return e.is(kindRepeated)
	case fence.ErrNotRaised:
		return e.is(kindNotRaised)
	case fence.ErrUnknown:
		return e.Problem.Outcome == "unknown"
	}
	return false
}

// Temporary reports whether the request was not run and may simply be repeated.
func (e *RefusedError) Temporary() bool { return e.is(kindDraining) || e.is(kindUnavailable) }

func (e *RefusedError) is(kind string) bool { return e.Problem.Type == ProblemType+kind }

// maxProblem bounds what is read of an answer.
const maxProblem = 64 << 10

// Refused is the *RefusedError of an answer with which a Handler refused the
// request, or nil for any other answer. The body can be read as before; closing
// it stays the caller's.
func Refused(resp *http.Response) error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || resp.StatusCode < 400 {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	// Others use problem documents too: they get back what was read.
	resp.Body = again{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err != nil {
		return nil
	}
	var p Problem
	if json.Unmarshal(body, &p) != nil || !strings.HasPrefix(p.Type, ProblemType) {
		return nil
	}
	p.Status = resp.StatusCode
	return &RefusedError{p}
}

type again struct {
	io.Reader
	io.Closer
}
