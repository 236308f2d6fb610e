package fencetest

import (
	"fmt"

	"github.com/stint-dev/stint/fence"
)

var claimCases = []Case{
	{
		Name:     "the index lists exactly the running rows",
		Sentence: "The claim marker is written by the raise and removed by Finish and Requeue: no claim is outside the index.",
		run: func(e *env) {
			e.claimed()
			var all []fence.Claim
			for i := range 6 {
				all = append(all, e.raise(e.a, fmt.Sprintf("job%d", i), grant(fence.Token(i+1), "n")))
			}
			e.claimed("job0", "job1", "job2", "job3", "job4", "job5")
			e.must(e.b.Fence.Finish(e.ctx, all[1]))
			e.must(e.b.Fence.Requeue(e.ctx, e.row("job4")))
			e.claimed("job0", "job2", "job3", "job5")
			e.raise(e.b, "job1", grant(20, "m"))
			e.claimed("job0", "job1", "job2", "job3", "job5")
		},
	}, {
		Name:     "the fence survives Finish",
		Sentence: "Finish sets DONE and leaves the fence; repeating it is harmless.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			b := e.raise(e.b, job, grant(12, "b"))
			e.write(e.b, b, "chunk", "1")
			for range 3 {
				e.must(e.b.Fence.Finish(e.ctx, b))
				if r := e.row(job); r.State != fence.Done || r.Fence != 12 || r.Nonce != "b" || r.Owner != 12 {
					e.Fatalf("the row is %+v", r)
				}
			}
			e.wants(e.a.Write(e.ctx, a, "chunk", "late", nil), fence.ErrStale)
			_, err := e.a.Fence.Raise(e.ctx, job, grant(7, "a"))
			e.wants(err, fence.ErrStale)
			e.holds("chunk", "1")
			e.claimed()
		},
	}, {
		Name:     "only the holder finishes",
		Sentence: "Finish has the same rule of admission as a write, and a refused one changes nothing.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			e.raise(e.b, job, grant(12, "b"))
			was := e.row(job)
			e.wants(e.a.Fence.Finish(e.ctx, a), fence.ErrStale)
			e.same(e.row(job), was)
			e.claimed(job)
		},
	}, {
		Name:     "a row is requeued only as it was seen",
		Sentence: "Requeue is conditional on the exact owner, nonce and fence; otherwise ErrChanged, and nothing is changed.",
		run: func(e *env) {
			e.raise(e.a, job, grant(7, "a"))
			seen := e.row(job)
			for _, change := range []func(*fence.Row){
				func(r *fence.Row) { r.Owner = 6 },
				func(r *fence.Row) { r.Nonce = "b" },
				func(r *fence.Row) { r.Fence = 8 },
				func(r *fence.Row) { r.Name = "other" },
			} {
				other := seen
				change(&other)
				e.wants(e.b.Fence.Requeue(e.ctx, other), fence.ErrChanged)
				e.same(e.row(job), seen)
			}
			e.must(e.b.Fence.Requeue(e.ctx, seen))
			if r := e.row(job); r.State != fence.Queued || r.Fence != 7 || r.Owner != 7 {
				e.Fatalf("the row is %+v", r)
			}
			e.wants(e.b.Fence.Requeue(e.ctx, seen), fence.ErrChanged)
			e.claimed()
		},
	}, {
		Name:     "a row that was claimed anew is not requeued",
		Sentence: "A holder that came between the sweeper's look and its write is not swept.",
		run: func(e *env) {
			e.raise(e.a, job, grant(7, "a"))
			seen := e.row(job)
			b := e.raise(e.a, job, grant(12, "b"))
			e.wants(e.b.Fence.Requeue(e.ctx, seen), fence.ErrChanged)
			e.claimed(job)
			seen = e.row(job)
			e.must(e.a.Fence.Finish(e.ctx, b))
			e.wants(e.b.Fence.Requeue(e.ctx, seen), fence.ErrChanged)
			if r := e.row(job); r.State != fence.Done {
				e.Fatalf("the row is %+v", r)
			}
		},
	}, {
		Name:     "rows can be requeued while they are listed",
		Sentence: "Claims holds nothing while the loop's body runs, and stops when the body does.",
		run: func(e *env) {
			for i := range 5 {
				e.raise(e.a, fmt.Sprintf("job%d", i), grant(fence.Token(i+1), "n"))
			}
			for range e.a.Fence.Claims(e.ctx) {
				break
			}
			n := 0
			for r, err := range e.a.Fence.Claims(e.ctx) {
				e.must(err)
				e.must(e.a.Fence.Requeue(e.ctx, r))
				n++
			}
			if n != 5 {
				e.Fatalf("listed %d rows, want 5", n)
			}
			e.claimed()
		},
	},
}
