package authoritytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Random runs the same random programs over two authorities and wants the same
// history from both. Each needs an Advance and one counter for all names. It
// opens each once: every program has names of its own, and tokens are counted
// from its start. A failure comes back reduced, with the seed that repeats it.
func Random(t *testing.T, model, subject func(t *testing.T) Handle) {
	m, s := newSide(t, model), newSide(t, subject)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m, s := m.program(rt, n), s.program(rt, n)
		start := time.Now()
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			o := drawOp(rt, len(m.requests), len(m.grants))
			want, got := m.step(o), s.step(o)
			rt.Logf("%-60s %s", o, want)
			// A waiter that is not heard of loses its place, by the real clock:
			// what a stalled machine makes of that is nobody's fault.
			if m.waits && time.Since(start) > placeKept {
				return
			}
			if want != got {
				rt.Fatalf("%s:\n model   %s\n subject %s", o, want, got)
			}
		}
	})
}

// placeKept is for how long every authority keeps the place of a waiter that is
// not heard of, at the least.
const placeKept = time.Second

// op is one step of a program. Earlier requests and grants are named by their
// number, counted over the program.
type op struct {
	kind    string
	name    string
	length  time.Duration
	earlier int
	lost    bool // the answer does not arrive: the program goes on without it
	waiter  string
	peer    bool // through the second handle
}

func (o op) String() string {
	return fmt.Sprintf("%s %s length=%v earlier=%d lost=%v waiter=%s peer=%v", o.kind, o.name, o.length, o.earlier, o.lost, o.waiter, o.peer)
}

func drawOp(rt *rapid.T, requests, grants int) op {
	kinds := []string{"acquire", "acquire", "inspect", "advance", "list", "line", "line", "leave"}
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
		waiter: rapid.SampledFrom([]string{"v", "w"}).Draw(rt, "waiter"),
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

// side is one of the two authorities.
type side struct {
	handle Handle
	peer   authority.Authority
}

func newSide(t *testing.T, open func(*testing.T) Handle) side {
	h := open(t)
	if h.Advance == nil {
		t.Fatal("random programs need a clock that can be moved")
	}
	s := side{h, h.Authority}
	if h.Peer != nil {
		s.peer = h.Peer(t)
	}
	t.Cleanup(func() {
		if s.peer != h.Authority {
			_ = s.peer.Close() // the suite's case "close" is about this
		}
		_ = h.Authority.Close()
	})
	return s
}

// program is one program's run over one side.
type program struct {
	side
	prefix   string      // of its names
	base     fence.Token // the counter when it began
	requests []authority.Request
	grants   []authority.Grant
	waits    bool // somebody has stood in line
}

func (s side) program(rt *rapid.T, n int) *program {
	p := &program{side: s, prefix: fmt.Sprintf("%d/", n)}
	g, err := s.handle.Authority.Acquire(context.Background(), authority.Request{Name: "probe", Length: time.Millisecond, Nonce: fmt.Sprint(n)})
	if err != nil {
		rt.Fatalf("the probe of the counter: %v", err)
	}
	s.handle.Advance(time.Millisecond)
	p.base = g.Token
	return p
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
	name := p.prefix + o.name
	switch o.kind {
	case "advance":
		p.handle.Advance(o.length)
		return "ok"
	case "acquire", "line":
		r := authority.Request{Name: name, Length: o.length, Nonce: fmt.Sprintf("n%d", len(p.requests)), Holder: "h"}
		if _, queues := a.(authority.Queuer); queues && o.kind == "line" {
			r.Waiter, p.waits = o.waiter, true
		}
		p.requests = append(p.requests, r)
		return p.granted(o, func() (authority.Grant, error) { return a.Acquire(ctx, r) })
	case "repeat":
		return p.granted(o, func() (authority.Grant, error) { return a.Acquire(ctx, p.requests[o.earlier]) })
	case "renew":
		return p.granted(o, func() (authority.Grant, error) { return a.Renew(ctx, p.grants[o.earlier]) })
	case "leave":
		q, ok := a.(authority.Queuer)
		if !ok {
			return "no queuer"
		}
		return p.outcome(q.Leave(ctx, authority.Request{Name: name, Length: o.length, Nonce: "leaving", Waiter: o.waiter}))
	case "forge":
		g := p.grants[o.earlier]
		g.Nonce = "forged"
		return p.outcome(a.Release(ctx, g))
	case "release":
		return p.outcome(a.Release(ctx, p.grants[o.earlier]))
	case "inspect":
		s, err := a.Inspect(ctx, name)
		return fmt.Sprint(p.plain(s), p.outcome(err))
	default:
		return p.listing(ctx, a)
	}
}

func (p *program) granted(o op, f func() (authority.Grant, error)) string {
	g, err := f()
	if err == nil && !o.lost {
		p.grants = append(p.grants, g)
	}
	g.Grant = p.relative(g.Grant)
	return fmt.Sprintf("%+v %s", g, p.outcome(err))
}

func (p *program) listing(ctx context.Context, a authority.Authority) string {
	l, ok := a.(authority.Lister)
	if !ok {
		return "no lister"
	}
	var all strings.Builder
	for s, err := range l.List(ctx) {
		if err != nil || strings.HasPrefix(s.Name, p.prefix) {
			fmt.Fprint(&all, p.plain(s), p.outcome(err), ";")
		}
	}
	return all.String()
}

func (p *program) relative(g fence.Grant) fence.Grant {
	if g.Token != 0 {
		g.Token -= p.base
	}
	return g
}

// plain is s without what two stores may tell differently.
func (p *program) plain(s authority.State) authority.State {
	s.Since, s.Grant = time.Time{}, p.relative(s.Grant)
	return s
}

func (p *program) outcome(err error) string {
	var h *authority.HeldError
	var n *authority.NotHeldError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &h):
		return fmt.Sprintf("held %+v ahead %d", p.plain(h.State), h.Ahead)
	case errors.As(err, &n):
		return fmt.Sprintf("not held %v %+v", p.relative(n.Grant), p.plain(n.State))
	}
	return "error " + err.Error()
}
