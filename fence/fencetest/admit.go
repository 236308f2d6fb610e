package fencetest

import (
	"errors"

	"github.com/stint-dev/stint/fence"
)

var admitCases = []Case{
	{
		Name:     "the current holder writes as often as it likes",
		Sentence: "A token equal to the fence, of the same grant, is the current holder's.",
		run: func(e *env) {
			c := e.raise(e.a, job, grant(7, "a"))
			for _, v := range []string{"1", "2", "3", "4", "5"} {
				e.write(e.a, c, "chunk", v)
				e.must(e.a.Fence.Check(e.ctx, c))
				e.holds("chunk", v)
			}
		},
	}, {
		Name:     "a lower token is refused",
		Sentence: "The resource refuses a token lower than its fence, and says both numbers.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			b := e.raise(e.b, job, grant(12, "b"))
			for _, err := range []error{
				e.a.Write(e.ctx, a, "chunk", "late", nil), e.a.Fence.Check(e.ctx, a), e.a.Fence.Finish(e.ctx, a),
			} {
				e.wants(err, fence.ErrStale)
				var stale *fence.StaleError
				if !errors.As(err, &stale) || stale.Presented != 7 || stale.Fence != 12 || stale.Name != job || stale.AtRaise {
					e.Fatalf("the error is %#v, want 7 refused by 12", stale)
				}
			}
			e.write(e.b, b, "chunk", "2")
		},
	}, {
		Name:     "a refused write changes nothing",
		Sentence: "Check and write are one atomic step: what is refused leaves neither data nor a count.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			b := e.raise(e.b, job, grant(12, "b"))
			e.write(e.b, b, "chunk", "of b")
			was := e.row(job)
			e.wants(e.a.Write(e.ctx, a, "chunk", "of a", nil), fence.ErrStale)
			e.wants(e.a.Write(e.ctx, a, "stray", "of a", nil), fence.ErrStale)
			e.holds("chunk", "of b")
			e.holds("stray", "")
			e.same(e.row(job), was)
		},
	}, {
		Name:     "an equal token of another grant is refused",
		Sentence: "A number that was handed out twice admits only the grant that came first.",
		run: func(e *env) {
			first := e.raise(e.a, job, grant(15, "first"))
			e.write(e.a, first, "chunk", "first")
			was := e.row(job)
			_, err := e.b.Fence.Raise(e.ctx, job, grant(15, "second"))
			e.wants(err, fence.ErrRepeated)
			var repeated *fence.RepeatedError
			if !errors.As(err, &repeated) || repeated.Admitted != grant(15, "first") || repeated.Presented != grant(15, "second") {
				e.Fatalf("the error is %#v", repeated)
			}
			forged := fence.Claim{Name: job, Grant: grant(15, "second")}
			e.wants(e.b.Write(e.ctx, forged, "chunk", "second", nil), fence.ErrRepeated)
			e.wants(e.b.Fence.Check(e.ctx, forged), fence.ErrRepeated)
			e.wants(e.b.Fence.Finish(e.ctx, forged), fence.ErrRepeated)
			e.holds("chunk", "first")
			e.same(e.row(job), was)
			e.write(e.a, first, "chunk", "first again")
		},
	}, {
		Name:     "a write without a fence row is refused",
		Sentence: "A missing fence row fails closed, with its own error.",
		run: func(e *env) {
			c := fence.Claim{Name: job, Grant: grant(7, "a")}
			e.wants(e.a.Write(e.ctx, c, "chunk", "1", nil), fence.ErrNoFence)
			e.wants(e.a.Fence.Check(e.ctx, c), fence.ErrNoFence)
			e.wants(e.a.Fence.Finish(e.ctx, c), fence.ErrNoFence)
			e.holds("chunk", "")
			_, err := e.a.Row(e.ctx, job)
			e.wants(err, fence.ErrNoFence)
			e.claimed()
		},
	}, {
		Name:     "a write never raises the fence",
		Sentence: "A holder raises first: a write of a token above the fence is refused.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			ahead := fence.Claim{Name: job, Grant: grant(12, "b")}
			e.wants(e.b.Write(e.ctx, ahead, "chunk", "b", nil), fence.ErrNotRaised)
			e.wants(e.b.Fence.Check(e.ctx, ahead), fence.ErrNotRaised)
			e.wants(e.b.Fence.Finish(e.ctx, ahead), fence.ErrNotRaised)
			if r := e.row(job); r.Fence != 7 {
				e.Fatalf("the fence moved to %d", r.Fence)
			}
			e.write(e.a, a, "chunk", "a")
			e.holds("chunk", "a")
		},
	}, {
		Name:     "the fence outlives the data",
		Sentence: "Deleting the job and making it anew does not forget the fence.",
		run: func(e *env) {
			old := e.raise(e.a, job, grant(4, "old"))
			e.write(e.a, old, "chunk", "old")
			c := e.raise(e.b, job, grant(5, "new"))
			e.write(e.b, c, "chunk", "new")
			e.must(e.b.Remove(e.ctx))
			e.holds("chunk", "")
			e.wants(e.a.Write(e.ctx, old, "chunk", "old", nil), fence.ErrStale)
			_, err := e.a.Fence.Raise(e.ctx, job, grant(4, "old"))
			e.wants(err, fence.ErrStale)
			e.holds("chunk", "")
			e.write(e.b, c, "chunk", "new again")
		},
	}, {
		Name:     "names have fences of their own",
		Sentence: "A fence of one name refuses nothing of another.",
		run: func(e *env) {
			low := e.raise(e.a, "low", grant(3, "x"))
			high := e.raise(e.a, "high", grant(90, "y"))
			e.write(e.a, low, "l", "1")
			e.write(e.a, high, "h", "1")
			e.wants(e.a.Write(e.ctx, fence.Claim{Name: "high", Grant: low.Grant}, "h", "2", nil), fence.ErrStale)
		},
	},
}
