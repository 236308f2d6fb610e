package fencetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stint-dev/stint/fence"
)

var raiseCases = []Case{
	{
		Name:     "a raise gives the row as the last holder left it",
		Sentence: "claim.Previous is the row before the raise, with all that was committed under it.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			e.same(a.Previous, fence.Row{Name: job})
			e.write(e.a, a, "chunk", "1")
			e.write(e.a, a, "chunk", "2")
			left := e.row(job)
			if left.Fence != 7 || left.Nonce != "a" || left.Owner != 7 || left.State != fence.Running || left.Seq != 2 || left.Since.IsZero() {
				e.Fatalf("the row is %+v", left)
			}
			b := e.raise(e.b, job, grant(12, "b"))
			e.same(b.Previous, left)
			e.must(e.b.Fence.Finish(e.ctx, b))
			left = e.row(job)
			if left.State != fence.Done || left.Seq != 2 {
				e.Fatalf("the row is %+v", left)
			}
			e.same(e.raise(e.a, job, grant(15, "c")).Previous, left)
		},
	}, {
		Name:     "repeating a raise is harmless",
		Sentence: "A raise of the same grant again, by whichever process, changes nothing and gives the same Previous.",
		run: func(e *env) {
			a := e.raise(e.a, job, grant(7, "a"))
			e.write(e.a, a, "chunk", "1")
			b := e.raise(e.b, job, grant(12, "b"))
			was := e.row(job)
			for _, s := range []Store{e.a, e.b, e.a} {
				e.same(e.raise(s, job, grant(12, "b")).Previous, b.Previous)
				e.same(e.row(job), was)
			}
			e.write(e.b, b, "chunk", "2")
			e.wants(e.a.Write(e.ctx, a, "chunk", "late", nil), fence.ErrStale)
		},
	}, {
		Name:     "a new holder below the fence is told that the authority may be behind",
		Sentence: "A raise refuses a lower token, and its error says that it was a raise.",
		run: func(e *env) {
			e.raise(e.a, job, grant(12, "b"))
			was := e.row(job)
			_, err := e.b.Fence.Raise(e.ctx, job, grant(11, "c"))
			var stale *fence.StaleError
			if !errors.As(err, &stale) || !stale.AtRaise || stale.Presented != 11 || stale.Fence != 12 {
				e.Fatalf("the error is %v", err)
			}
			e.same(e.row(job), was)
		},
	}, {
		Name:     "of concurrent raises the highest wins and no fence falls",
		Sentence: "Whatever comes at once: the fence only grows, and ends at the highest token.",
		run:      concurrentRaises,
	}, {
		Name:     "a claim's count goes on over raises",
		Sentence: "Seq never falls and is not reset, so that a lost answer can be told from a successor's work.",
		run: func(e *env) {
			for i := range 4 {
				c := e.raise(e.a, job, grant(fence.Token(10+i), "n"))
				if c.Previous.Seq != int64(2*i) {
					e.Fatalf("after %d raises the count is %d", i, c.Previous.Seq)
				}
				e.write(e.a, c, "chunk", "1")
				e.write(e.a, c, "chunk", "2")
			}
		},
	},
}

func concurrentRaises(e *env) {
	const n = 24
	tokens := rand.Perm(n)
	var seen [2]fence.Token
	var wg sync.WaitGroup
	for w, s := range []Store{e.a, e.b} {
		wg.Go(func() {
			for i := w; i < n; i += 2 {
				t := fence.Token(tokens[i] + 1)
				c, err := s.Fence.Raise(e.ctx, job, grant(t, fmt.Sprintf("n%d", t)))
				switch {
				case err == nil && c.Previous.Fence >= t:
					e.Errorf("token %d was let in after %d", t, c.Previous.Fence)
				case err != nil && !errors.Is(err, fence.ErrStale):
					e.Errorf("raise to %d: %v", t, err)
				}
				r, err := s.Row(e.ctx, job)
				if err != nil || r.Fence < t || r.Fence < seen[w] {
					e.Errorf("after a raise to %d the fence is %d (before %d): %v", t, r.Fence, seen[w], err)
				}
				seen[w] = r.Fence
			}
		})
	}
	wg.Wait()
	if r := e.row(job); r.Fence != n || r.Nonce != fmt.Sprintf("n%d", n) || r.Owner != n || r.State != fence.Running {
		e.Fatalf("the row is %+v, want it claimed by %d", r, n)
	}
}
