package authoritytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/authority"
)

// Random runs the same random programs over two authorities and wants the same
// history from both. Each needs an Advance; tokens are compared too, so both
// have to start at the same number and use one counter for all names. A failure
// comes back reduced, with the seed that repeats it.
func Random(t *testing.T, model, subject func(t *testing.T) Handle) {
	rapid.Check(t, func(rt *rapid.T) {
		m, s := newProgram(t, rt, model), newProgram(t, rt, subject)
		defer m.close()
		defer s.close()
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			o := drawOp(rt, len(m.requests), len(m.grants))
			want, got := m.step(o), s.step(o)
			rt.Logf("%-60s %s", o, want)
			if want != got {
				rt.Fatalf("%s:\n model   %s\n subject %s", o, want, got)
			}
		}
	})
}

// op is one step of a program. Earlier requests and grants are named by their
// number, counted over the program.
type op struct {
	kind    string
	name    string
	length  time.Duration
	earlier int
	lost    bool // the answer does not arrive: the program goes on without it
	peer    bool // through the second handle
}

func (o op) String() string {
	return fmt.Sprintf("%s %s length=%v earlier=%d lost=%v peer=%v", o.kind, o.name, o.length, o.earlier, o.lost, o.peer)
}

func drawOp(rt *rapid.T, requests, grants int) op {
	kinds := []string{"acquire", "acquire", "inspect", "advance", "list"}
	if requests > 0 {
		kinds = append(kinds, "repeat")
	}
	if grants > 0 {
		kinds = append(kinds, "renew", "renew", "release", "forge")
	}
	o := op{
		kind:   rapid.SampledFrom(kinds).Draw(rt, "kind"),
		name:   rapid.SampledFrom([]string{"a", "b", "a/../b"}).Draw(rt, "name"),
		length: rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(rt, "length"),
		lost:   rapid.IntRange(0, 4).Draw(rt, "lost") == 0,
		peer:   rapid.Bool().Draw(rt, "peer"),
	}
	switch o.kind {
	case "repeat":
		o.earlier = rapid.IntRange(0, requests-1).Draw(rt, "request")
	case "renew", "release", "forge":
		o.earlier = rapid.IntRange(0, grants-1).Draw(rt, "grant")
	case "advance":
		o.length = rapid.SampledFrom([]time.Duration{1, time.Second - 1, time.Second, 2 * time.Second}).Draw(rt, "by")
	}
	return o
}

// program is a run over one authority.
type program struct {
	handle   Handle
	peer     authority.Authority
	requests []authority.Request
	grants   []authority.Grant
}

func newProgram(t *testing.T, rt *rapid.T, open func(*testing.T) Handle) *program {
	h := open(t)
	if h.Advance == nil {
		rt.Fatalf("random programs need a clock that can be moved")
	}
	p := &program{handle: h, peer: h.Authority}
	if h.Peer != nil {
		p.peer = h.Peer(t)
	}
	return p
}

func (p *program) close() {
	if p.peer != p.handle.Authority {
		_ = p.peer.Close() // the suite's case "close" is about this
	}
	_ = p.handle.Authority.Close()
}

// step performs o and says what was answered, whether or not the program is
// told.
func (p *program) step(o op) string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a := p.handle.Authority
	if o.peer {
		a = p.peer
	}
	switch o.kind {
	case "advance":
		p.handle.Advance(o.length)
		return "ok"
	case "acquire":
		r := authority.Request{Name: o.name, Length: o.length, Nonce: fmt.Sprintf("n%d", len(p.requests)), Holder: "h"}
		p.requests = append(p.requests, r)
		return p.granted(o, func() (authority.Grant, error) { return a.Acquire(ctx, r) })
	case "repeat":
		return p.granted(o, func() (authority.Grant, error) { return a.Acquire(ctx, p.requests[o.earlier]) })
	case "renew":
		return p.granted(o, func() (authority.Grant, error) { return a.Renew(ctx, p.grants[o.earlier]) })
	case "forge":
		g := p.grants[o.earlier]
		g.Nonce = "forged"
		return fmt.Sprint(outcome(a.Release(ctx, g)))
	case "release":
		return fmt.Sprint(outcome(a.Release(ctx, p.grants[o.earlier])))
	case "inspect":
		s, err := a.Inspect(ctx, o.name)
		return fmt.Sprint(plain(s), outcome(err))
	default:
		return listing(ctx, a)
	}
}

func (p *program) granted(o op, f func() (authority.Grant, error)) string {
	g, err := f()
	if err == nil && !o.lost {
		p.grants = append(p.grants, g)
	}
	return fmt.Sprintf("%+v %s", g, outcome(err))
}

func listing(ctx context.Context, a authority.Authority) string {
	l, ok := a.(authority.Lister)
	if !ok {
		return "no lister"
	}
	var all string
	for s, err := range l.List(ctx) {
		all += fmt.Sprint(plain(s), outcome(err), ";")
	}
	return all
}

// plain is s without what two stores may tell differently.
func plain(s authority.State) authority.State {
	s.Since = time.Time{}
	return s
}

func outcome(err error) string {
	var h *authority.HeldError
	var n *authority.NotHeldError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &h):
		return fmt.Sprintf("held %+v ahead %d", plain(h.State), h.Ahead)
	case errors.As(err, &n):
		return fmt.Sprintf("not held %v %+v", n.Grant, plain(n.State))
	}
	return "error " + err.Error()
}
