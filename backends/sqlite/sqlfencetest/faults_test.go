package sqlfencetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

// work is a whole job: raise, three chunks, finish. Each step is repeated as
// long as its error says that nothing was done, which is checked.
func work(t *testing.T, s, clean *store) {
	t.Helper()
	var c fence.Claim
	fencetest.Told(t, "raise", func() bool { r, err := clean.f.Row(t.Context(), job); return err == nil && r.Fence == 7 }, func() (err error) {
		c, err = s.f.Raise(t.Context(), job, grant(7, "a"))
		return err
	})
	if c.Previous.Fence != 3 || c.Previous.Nonce != "before" {
		t.Fatalf("previous is %+v, want the holder before", c.Previous)
	}
	for _, chunk := range []string{"chunk1", "chunk2", "chunk3"} {
		fencetest.Told(t, chunk, func() bool { return clean.count(t, chunk) == 1 }, func() error {
			return s.write(t.Context(), c, chunk, "v", nil)
		})
	}
	fencetest.Told(t, "finish", func() bool { r, err := clean.f.Row(t.Context(), job); return err == nil && r.State == fence.Done }, func() error {
		return s.f.Finish(t.Context(), c)
	})
	for _, chunk := range []string{"chunk1", "chunk2", "chunk3"} {
		if n := clean.count(t, chunk); n != 1 {
			t.Fatalf("%s was written %d times", chunk, n)
		}
	}
}

func TestEveryLostRequestAndAnswerIsReportedRightly(t *testing.T) {
	t.Parallel()
	for i, m := range modes {
		keep := i == 1 // the connection outlives the error, with its transaction open
		for _, when := range faultsql.BothSides {
			t.Run(fmt.Sprintf("%s %v keep=%v", m.name, when, keep), func(t *testing.T) {
				total := 0
				for i := 0; ; i++ {
					s, clean, n := faulty(t, m, 5*time.Second)
					raise(t, clean, job, grant(3, "before"))
					n.Keep = keep
					n.Lose(false, faultsql.Nth(i, when))
					work(t, s, clean)
					if n.Lost() == 0 {
						break
					}
					total++
				}
				if total < 20 {
					t.Fatalf("only %d requests were lost: the job has more", total)
				}
			})
		}
	}
}

func TestALostCommitAnswerIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, when := range faultsql.BothSides {
		applied := when == faultsql.After
		for how, claim := range map[string]func(fence.Claim) fence.Claim{
			"raised":  func(c fence.Claim) fence.Claim { return c },
			"resumed": func(c fence.Claim) fence.Claim { r, _ := fence.Resume(c.Name, c.Grant); return r },
			"handed":  func(c fence.Claim) fence.Claim { return fence.Claim{Name: c.Name, Grant: c.Grant} },
		} {
			t.Run(fmt.Sprintf("%s %v", how, when), func(t *testing.T) {
				budget := 20 * time.Millisecond
				if how == "handed" { // what is unsettled is kept by the Fence itself
					budget = 500 * time.Millisecond
				}
				s, clean, n := faulty(t, modes[0], budget)
				c := claim(raise(t, s, job, grant(7, "a")))
				must(t, s.write(t.Context(), c, "chunk1", "v", nil))
				n.Lose(true, faultsql.Commits(when))
				wants(t, s.write(t.Context(), c, "chunk2", "v", nil), fence.ErrUnknown)
				wants(t, s.write(t.Context(), c, "chunk2", "v", nil), fence.ErrUnknown)
				wants(t, s.f.Finish(t.Context(), c), fence.ErrUnknown)
				_, err := s.f.Settle(t.Context(), c)
				wants(t, err, fence.ErrUnknown)
				if n.Heal(); how != "handed" {
					mend(t, n, s)
				}
				wants(t, s.f.Finish(t.Context(), c), fence.ErrUnknown)
				err = s.write(t.Context(), c, "chunk2", "v", nil)
				for begun := time.Now(); how == "handed" && errors.Is(err, fence.ErrUnknown) && time.Since(begun) < 30*time.Second; {
					err = s.write(t.Context(), c, "chunk2", "v", nil) // a busy machine had not settled it in time
				}
				if applied {
					wants(t, err, fence.ErrCommitted)
				} else {
					must(t, err)
				}
				must(t, s.write(t.Context(), c, "chunk3", "v", nil))
				must(t, s.f.Finish(t.Context(), c))
				for _, chunk := range []string{"chunk1", "chunk2", "chunk3"} {
					if n := clean.count(t, chunk); n != 1 {
						t.Errorf("%s was written %d times", chunk, n)
					}
				}
			})
		}
	}
}

func TestSettleTellsWhatBecameOfALostCommit(t *testing.T) {
	t.Parallel()
	for _, when := range faultsql.BothSides {
		t.Run(when.String(), func(t *testing.T) {
			s, clean, n := faulty(t, modes[0], 20*time.Millisecond)
			c := raise(t, s, job, grant(7, "a"))
			n.Lose(true, faultsql.Commits(when))
			wants(t, s.write(t.Context(), c, "chunk1", "v", nil), fence.ErrUnknown)
			mend(t, n, s)
			for range 3 {
				applied, err := s.f.Settle(t.Context(), c)
				must(t, err)
				if want := when == faultsql.After; applied != want || applied != (clean.count(t, "chunk1") == 1) {
					t.Fatalf("applied is %v, want %v", applied, want)
				}
			}
			must(t, s.write(t.Context(), c, "chunk2", "v", nil))
			if applied, err := s.f.Settle(t.Context(), c); err != nil || !applied {
				t.Fatalf("the last transaction was committed, Settle says %v, %v", applied, err)
			}
			wants(t, s.write(t.Context(), c, "chunk3", "v", func() error { return errAbandon }), errAbandon)
			if applied, err := s.f.Settle(t.Context(), c); err != nil || applied {
				t.Fatalf("the last transaction was abandoned, Settle says %v, %v", applied, err)
			}
		})
	}
}

var errAbandon = errors.New("abandoned on purpose")

func TestALostCommitIsToldFromASuccessorsWork(t *testing.T) {
	t.Parallel()
	for _, when := range faultsql.BothSides {
		t.Run(when.String(), func(t *testing.T) {
			s, clean, n := faulty(t, modes[0], 20*time.Millisecond)
			c := raise(t, s, job, grant(7, "a"))
			n.Lose(true, faultsql.Commits(when))
			wants(t, s.write(t.Context(), c, "chunk1", "v", nil), fence.ErrUnknown)
			mend(t, n, s)
			b := raise(t, clean, job, grant(12, "b"))
			copied := c // settled for good by the first look
			applied, err := s.f.Settle(t.Context(), c)
			if err != nil || applied != (when == faultsql.After) {
				t.Fatalf("after a raise: %v, %v", applied, err)
			}
			must(t, clean.write(t.Context(), b, "chunk2", "v", nil))
			wants(t, s.write(t.Context(), copied, "chunk1", "v", nil), fence.ErrStale)
		})
	}
	for _, when := range faultsql.BothSides {
		t.Run(fmt.Sprintf("%v, after a commit of the successor", when), func(t *testing.T) {
			s, clean, n := faulty(t, modes[0], 20*time.Millisecond)
			c := raise(t, s, job, grant(7, "a"))
			n.Lose(true, faultsql.Commits(when))
			wants(t, s.write(t.Context(), c, "chunk1", "v", nil), fence.ErrUnknown)
			mend(t, n, s)
			must(t, clean.write(t.Context(), raise(t, clean, job, grant(12, "b")), "chunk2", "v", nil))
			was := clean.count(t, "chunk1")
			err := s.write(t.Context(), c, "chunk1", "v", nil)
			wants(t, err, fence.ErrUnknown)
			wants(t, err, fence.ErrStale)
			if n := clean.count(t, "chunk1"); n != was {
				t.Fatalf("chunk1 was written %d times, then %d", was, n)
			}
		})
	}
}

func TestALostCommitIsNotMistakenAfterAPrune(t *testing.T) {
	t.Parallel()
	s, clean, n := faulty(t, modes[0], 20*time.Millisecond)
	c := raise(t, s, job, grant(7, "a"))
	n.Lose(true, faultsql.Commits(faultsql.After))
	wants(t, s.write(t.Context(), c, "chunk1", "v", nil), fence.ErrUnknown)
	mend(t, n, s)
	must(t, clean.f.Finish(t.Context(), raise(t, clean, job, grant(8, "b"))))
	if dropped, err := clean.f.Prune(t.Context(), 0); err != nil || dropped != 1 {
		t.Fatal(dropped, err)
	}
	_, err := s.f.Settle(t.Context(), c)
	wants(t, err, fence.ErrUnknown)
	raise(t, clean, job, grant(9, "c"))
	_, err = s.f.Settle(t.Context(), c)
	wants(t, err, fence.ErrUnknown)
	wants(t, err, fence.ErrStale)
}

func TestALostAnswerOfARepeatableRequestIsRepeated(t *testing.T) {
	t.Parallel()
	for _, when := range faultsql.BothSides {
		for name, do := range map[string]func(context.Context, *store, fence.Claim) error{
			"raise": func(ctx context.Context, s *store, _ fence.Claim) error {
				_, err := s.f.Raise(ctx, job, grant(12, "b"))
				return err
			},
			"finish":  func(ctx context.Context, s *store, c fence.Claim) error { return s.f.Finish(ctx, c) },
			"requeue": func(ctx context.Context, s *store, c fence.Claim) error { return s.f.Requeue(ctx, running(c)) },
			"bar":     func(ctx context.Context, s *store, c fence.Claim) error { return s.f.Bar(ctx, job, 7) },
			"migrate": func(ctx context.Context, s *store, c fence.Claim) error { return s.f.Migrate(ctx) },
		} {
			t.Run(fmt.Sprintf("%s %v", name, when), func(t *testing.T) {
				s, _, n := faulty(t, modes[0], 20*time.Millisecond)
				c := raise(t, s, job, grant(7, "a"))
				n.Lose(true, faultsql.Commits(when))
				err := do(t.Context(), s, c)
				wants(t, err, fence.ErrUnknown)
				n.Heal()

				s, _, n = faulty(t, modes[0], 5*time.Second)
				c = raise(t, s, job, grant(7, "a"))
				n.Lose(false, faultsql.Commits(when))
				must(t, do(t.Context(), s, c))
				if n.Lost() != 1 {
					t.Fatalf("no COMMIT was lost")
				}
			})
		}
	}
}

func running(c fence.Claim) fence.Row {
	return fence.Row{Name: c.Name, Fence: c.Grant.Token, Nonce: c.Grant.Nonce, Owner: c.Grant.Token, State: fence.Running}
}

func TestAContextThatEndsDuringCommitChangesNothing(t *testing.T) {
	t.Parallel()
	for _, when := range faultsql.BothSides {
		ctx, cancel := context.WithCancel(t.Context())
		dsn := modes[0].dsn(t)
		clean := fresh(t, dsn, nil)
		c := raise(t, clean, job, grant(7, "a"))
		s := reopen(t, dsn, func(r faultsql.Request, w faultsql.When) error {
			if r.Op == faultsql.Commit && w == when {
				cancel()
			}
			return nil
		})
		must(t, s.write(ctx, c, "k", "v", nil))
		if n := clean.count(t, "k"); n != 1 || ctx.Err() == nil {
			t.Fatalf("%v: written %d times, ctx %v", when, n, ctx.Err())
		}
	}
}

func TestAContextThatEndsBeforeCommitUndoesEverything(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		dsn := modes[0].dsn(t)
		clean := fresh(t, dsn, nil)
		c := raise(t, clean, job, grant(7, "a"))
		ended, commit := false, false
		s := reopen(t, dsn, func(r faultsql.Request, w faultsql.When) error {
			commit = commit || r.Op == faultsql.Commit
			if !commit && r.N == int64(at) && w == faultsql.After {
				ended = true
				cancel()
			}
			return nil
		})
		err := s.write(ctx, c, "k", "v", nil)
		if !ended { // request at is the COMMIT
			must(t, err)
			cancel()
			break
		}
		wants(t, err, context.Canceled)
		if n := clean.count(t, "k"); n != 0 {
			t.Fatalf("request %d: written %d times, and %v", at, n, err)
		}
		must(t, s.write(t.Context(), c, "k", "v", nil))
	}
}
