package fencetest

import (
	"strings"

	"github.com/stint-dev/stint/fence"
)

var inputCases = []Case{
	{
		Name:     "a grant of an authority that may forget is refused",
		Sentence: "A weak grant's string form does not parse, and its parts are no grant of a fence.",
		run: func(e *env) {
			weak := fence.Weak{Token: 12, Nonce: "k3f9"}
			_, err := fence.ParseGrant(weak.String())
			e.wants(err, fence.ErrWeak)
		},
	}, {
		Name:     "bad grants change nothing",
		Sentence: "A grant without a token or a nonce, or beyond the bounds, gets a clear error from every call.",
		run: func(e *env) {
			for _, g := range []fence.Grant{
				{}, grant(0, "n"), grant(-1, "n"), grant(fence.MaxToken+1, "n"), grant(7, ""), grant(7, "a b"), grant(7, strings.Repeat("n", 65)),
			} {
				c := fence.Claim{Name: job, Grant: g}
				_, raised := e.a.Fence.Raise(e.ctx, job, g)
				for call, err := range map[string]error{
					"raise": raised, "check": e.a.Fence.Check(e.ctx, c), "finish": e.a.Fence.Finish(e.ctx, c), "write": e.a.Write(e.ctx, c, "chunk", "1", nil),
				} {
					if err == nil {
						e.Fatalf("%s accepted the grant %v", call, g)
					}
				}
			}
			_, err := e.a.Row(e.ctx, job)
			e.wants(err, fence.ErrNoFence)
		},
	}, {
		Name:     "bad names change nothing",
		Sentence: "Empty, over-long, non-UTF-8 names and those with control characters get a clear error.",
		run: func(e *env) {
			for _, name := range []string{"", strings.Repeat("n", fence.MaxName+1), "a\xff", "a\nb", "a\x00"} {
				c := fence.Claim{Name: name, Grant: grant(7, "a")}
				_, raised := e.a.Fence.Raise(e.ctx, name, c.Grant)
				for call, err := range map[string]error{
					"raise": raised, "check": e.a.Fence.Check(e.ctx, c), "finish": e.a.Fence.Finish(e.ctx, c), "write": e.a.Write(e.ctx, c, "chunk", "1", nil),
					"requeue": e.a.Fence.Requeue(e.ctx, fence.Row{Name: name, Fence: 7, Nonce: "a", Owner: 7}),
				} {
					if err == nil {
						e.Fatalf("%s accepted the name %.20q", call, name)
					}
				}
			}
			e.claimed()
		},
	}, {
		Name:     "odd names work and stay distinct",
		Sentence: "Two names are the same only if their bytes are; nothing in them is special.",
		run: func(e *env) {
			names := []string{"/a", "a//b", "a/../b", "a/b", " a ", "a", "A", "a%2Fb", "#x", "é", "e\u0301", "'; --", "%", "_", strings.Repeat("n", fence.MaxName)}
			for i, name := range names {
				c := e.raise(e.a, name, grant(fence.Token(i+1), "n"))
				e.same(c.Previous, fence.Row{Name: name})
				e.write(e.b, c, name, "v")
			}
			for i, name := range names {
				if r := e.row(name); r.Fence != fence.Token(i+1) || r.Name != name {
					e.Fatalf("row %q is %+v", name, r)
				}
			}
			e.claimed(names...)
		},
	}, {
		Name:     "the largest token works",
		Sentence: "Tokens up to MaxToken are kept exactly.",
		run: func(e *env) {
			e.raise(e.a, job, grant(fence.MaxToken-1, "a"))
			c := e.raise(e.b, job, grant(fence.MaxToken, "b"))
			e.write(e.b, c, "chunk", "1")
			if r := e.row(job); r.Fence != fence.MaxToken || r.Owner != fence.MaxToken {
				e.Fatalf("the row is %+v", r)
			}
		},
	},
}
