package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/fence"
)

var errAbandon = errors.New("abandoned on purpose")

var atomicCases = []Case{
	{
		Name:     "an abandoned write leaves nothing",
		Sentence: "An error inside the transaction comes back as it is; nothing is written or counted, and the claim goes on.",
		run: func(e *env) {
			c := e.raise(e.a, job, grant(7, "a"))
			e.write(e.a, c, "chunk", "1")
			e.wants(e.a.Write(e.ctx, c, "chunk", "2", func() error { return errAbandon }), errAbandon)
			e.holds("chunk", "1")
			if r := e.row(job); r.Seq != 1 {
				e.Fatalf("the abandoned write was counted: %+v", r)
			}
			e.write(e.a, c, "chunk", "2")
			e.holds("chunk", "2")
		},
	}, {
		Name:     "a panic inside a write leaves nothing",
		Sentence: "A panic rolls back and goes on; no lock stays behind.",
		run: func(e *env) {
			c := e.raise(e.a, job, grant(7, "a"))
			func() {
				defer func() {
					if got := recover(); got != errAbandon {
						e.Fatalf("the panic came back as %v", got)
					}
				}()
				_ = e.a.Write(e.ctx, c, "chunk", "1", func() error { panic(errAbandon) })
			}()
			e.holds("chunk", "")
			e.write(e.a, c, "chunk", "2")
			e.raise(e.b, job, grant(8, "b"))
		},
	}, {
		Name:     "a write whose context ended leaves nothing",
		Sentence: "What ends before the commit is sent was surely not written.",
		run: func(e *env) {
			c := e.raise(e.a, job, grant(7, "a"))
			ctx, cancel := context.WithCancelCause(e.ctx)
			cause := errors.New("lease ended")
			err := e.a.Write(ctx, c, "chunk", "1", func() error { cancel(cause); return nil })
			if err == nil {
				e.Fatalf("the write went through")
			}
			e.wants(err, cause)
			e.holds("chunk", "")
			for _, err := range []error{
				e.a.Write(ctx, c, "chunk", "1", nil), e.a.Fence.Check(ctx, c), e.a.Fence.Finish(ctx, c), e.a.Fence.Requeue(ctx, e.row(job)),
			} {
				if err == nil {
					e.Fatalf("a call with an ended context went through")
				}
			}
			if _, err := e.a.Fence.Raise(ctx, job, grant(9, "b")); err == nil {
				e.Fatalf("a raise with an ended context went through")
			}
			if r := e.row(job); r.Fence != 7 || r.State != fence.Running || r.Seq != 0 {
				e.Fatalf("the row is %+v", r)
			}
			e.write(e.a, c, "chunk", "2")
		},
	}, {
		Name:     "no raise comes between the check and the commit",
		Sentence: "Check and data are one commit: a raise in between waits for it and sees it, or the write is rolled back.",
		run:      raiseBetween,
	}, {
		Name:     "copies of a claim take turns",
		Sentence: "Copies share the same transactions; each is counted once.",
		run: func(e *env) {
			c := e.raise(e.a, job, grant(7, "a"))
			const n = 16
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					if err := e.a.Write(e.ctx, c, fmt.Sprint("k", i), "v", nil); err != nil {
						e.Errorf("write %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			if r := e.row(job); r.Seq != n {
				e.Fatalf("%d of %d writes were counted", r.Seq, n)
			}
		},
	}, {
		Name:     "a grant that was handed over may write",
		Sentence: "A claim of name and grant alone is as good as one from Raise; of two writers that count, the second is told.",
		run: func(e *env) {
			c := e.raise(e.a, job, grant(7, "a"))
			e.write(e.a, c, "chunk", "1")
			handed, err := fence.Resume(job, grant(7, "a"))
			e.must(err)
			e.write(e.b, handed, "chunk", "2")
			e.write(e.b, handed, "chunk", "3")
			e.write(e.b, fence.Claim{Name: job, Grant: grant(7, "a")}, "chunk", "4")
			e.wants(e.a.Write(e.ctx, c, "chunk", "5", nil), fence.ErrSequence)
			e.holds("chunk", "4")
			if r := e.row(job); r.Seq != 4 {
				e.Fatalf("the row is %+v", r)
			}
		},
	},
}

func raiseBetween(e *env) {
	a := e.raise(e.a, job, grant(7, "a"))
	type result struct {
		claim fence.Claim
		err   error
	}
	raised := make(chan result, 1)
	wrote := e.a.Write(e.ctx, a, "chunk", "of a", func() error {
		go func() {
			c, err := e.b.Fence.Raise(e.ctx, job, grant(12, "b"))
			raised <- result{c, err}
		}()
		select { // gives a raise that does not wait the time to be wrong
		case r := <-raised:
			raised <- r
		case <-time.After(200 * time.Millisecond):
		}
		return nil
	})
	b := <-raised
	e.must(b.err)
	switch {
	case wrote == nil && b.claim.Previous.Seq != 1:
		e.Fatalf("the write was committed, but the raise after it did not see it: %+v", b.claim.Previous)
	case wrote == nil:
		e.holds("chunk", "of a")
	default:
		e.wants(wrote, fence.ErrStale)
		e.holds("chunk", "")
	}
	e.wants(e.a.Write(e.ctx, a, "chunk", "late", nil), fence.ErrStale)
}
