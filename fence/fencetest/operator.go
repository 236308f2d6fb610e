package fencetest

import (
	"errors"

	"github.com/stint-dev/stint/fence"
)

var operatorCases = []Case{
	{
		Name:     "breaking a lease by hand shuts out its holder and lets in the next",
		Sentence: "Bar raises the fence to exactly token+1 without a claim: the old holder is refused, token+1 is admitted.",
		needs:    bar,
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			was := e.row(job)
			for range 2 {
				e.must(e.b.Bar(e.ctx, job, 7))
			}
			r := e.row(job)
			if r.Fence != 8 || r.Nonce != "" || r.State != was.State || r.Owner != was.Owner {
				e.Fatalf("the row is %+v", r)
			}
			e.wants(e.a.Write(e.ctx, a, "chunk", "a", nil), fence.ErrStale)
			e.wants(e.a.Write(e.ctx, fence.Claim{Name: job, Grant: grant(8, "b")}, "chunk", "b", nil), fence.ErrNotRaised)
			e.same(e.raise(e.b, job, grant(8, "b")).Previous, r)
			_, err := e.a.Fence.Raise(e.ctx, job, grant(8, "c"))
			e.wants(err, fence.ErrRepeated)
		},
	}, {
		Name:     "barring a token does not touch a later holder",
		Sentence: "Bar changes nothing where the fence is above the token already.",
		needs:    bar,
		run: func(e *env) {
			c := e.raise(e.a, job, grant(12, "b"))
			was := e.row(job)
			e.must(e.b.Bar(e.ctx, job, 7))
			e.must(e.b.Bar(e.ctx, job, 11))
			e.same(e.row(job), was)
			e.write(e.a, c, "chunk", "1")
		},
	}, {
		Name:     "a name that was never claimed can be barred",
		Sentence: "A holder caught between its acquire and its raise is shut out too.",
		needs:    bar,
		run: func(e *env) {
			e.must(e.a.Bar(e.ctx, job, 7))
			_, err := e.b.Fence.Raise(e.ctx, job, grant(7, "a"))
			e.wants(err, fence.ErrStale)
			e.claimed()
			e.raise(e.b, job, grant(8, "b"))
			e.claimed(job)
			for _, t := range []fence.Token{0, -3, fence.MaxToken, fence.MaxToken + 1} {
				if e.a.Bar(e.ctx, job, t) == nil {
					e.Fatalf("token %d was barred", t)
				}
			}
		},
	}, {
		Name:     "a pruned name still refuses",
		Sentence: "Pruned rows leave a floor: no token up to it is ever admitted to a name without a row.",
		needs:    prune,
		run: func(e *env) {
			done := e.raise(e.a, "done", grant(20, "a"))
			e.write(e.a, done, "chunk", "1")
			e.must(e.a.Fence.Finish(e.ctx, done))
			e.raise(e.a, "queued", grant(10, "q"))
			e.must(e.a.Fence.Requeue(e.ctx, e.row("queued")))
			running := e.raise(e.a, "running", grant(5, "r"))
			if n, err := e.b.Prune(e.ctx, 0); err != nil || n != 2 {
				e.Fatalf("pruned %d rows (%v), want 2", n, err)
			}
			e.wants(e.a.Write(e.ctx, done, "chunk", "2", nil), fence.ErrNoFence)
			for _, name := range []string{"done", "queued", "fresh"} {
				for _, t := range []fence.Token{4, 10, 19, 20} {
					var stale *fence.StaleError
					_, err := e.a.Fence.Raise(e.ctx, name, grant(t, "again"))
					if !errors.As(err, &stale) || stale.Fence != 20 || !stale.AtRaise {
						e.Fatalf("raise of %q to %d: %v", name, t, err)
					}
				}
				_, err := e.a.Row(e.ctx, name)
				e.wants(err, fence.ErrNoFence)
			}
			e.write(e.a, running, "r", "1")
			next := e.raise(e.b, "done", grant(21, "b"))
			if next.Previous.Seq <= 1 {
				e.Fatalf("the count came back to %d, which a lost commit of the pruned row may still be compared with", next.Previous.Seq)
			}
			e.write(e.a, next, "chunk", "3")
			e.claimed("running", "done")
		},
	}, {
		Name:     "pruning takes only what is idle",
		Sentence: "A row that was touched within the idle time stays.",
		needs:    prune,
		run: func(e *env) {
			c := e.raise(e.a, job, grant(20, "a"))
			e.must(e.a.Fence.Finish(e.ctx, c))
			if n, err := e.b.Prune(e.ctx, 1<<40); err != nil || n != 0 {
				e.Fatalf("pruned %d rows (%v), want none", n, err)
			}
			e.raise(e.a, "other", grant(3, "b"))
			if _, err := e.b.Prune(e.ctx, -1); err == nil {
				e.Fatalf("a negative idle time was accepted")
			}
		},
	}, {
		Name:     "a pruned bar still lets in the next holder",
		Sentence: "The floor that stands for a bar is the token that was barred.",
		needs:    bar | prune,
		run: func(e *env) {
			e.must(e.a.Bar(e.ctx, job, 7))
			if n, err := e.b.Prune(e.ctx, 0); err != nil || n != 1 {
				e.Fatalf("pruned %d rows (%v), want 1", n, err)
			}
			_, err := e.b.Fence.Raise(e.ctx, job, grant(7, "a"))
			e.wants(err, fence.ErrStale)
			e.must(e.a.Bar(e.ctx, job, 3)) // the floor does it already
			_, err = e.a.Row(e.ctx, job)
			e.wants(err, fence.ErrNoFence)
			e.raise(e.b, job, grant(8, "b"))
		},
	},
}
