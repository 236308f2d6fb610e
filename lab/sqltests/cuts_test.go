package sqltests

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// through are the targets whose connections can run through a gate.
var through = append(append([]target{}, servers...), ways[0])

// settled is what a lost COMMIT has for being settled where nothing is in the way
// of that but a busy machine.
const settled = 20 * time.Second

// gated is a store behind a gate, and one that has a way of its own.
func gated(t *testing.T, g target, settle, lock time.Duration) (s, clean *store, gate *sqlservers.Gate) {
	t.Helper()
	p := g.at(t)
	p.Settle, p.Lock = settle, lock
	clean = p.fresh(t, nil)
	gate = p.db.Gate(t)
	p.DSN = p.db.At(gate.Addr(), "")
	return p.reopen(t, nil), clean, gate
}

// A connection breaks at COMMIT, before the server saw it or after it was
// applied, and the next one comes through.
func TestACutAroundCommitIsSettledByItself(t *testing.T) {
	t.Parallel()
	each(t, through, func(t *testing.T, g target) {
		for _, cut := range []sqlservers.Cut{sqlservers.BeforeIt, sqlservers.BeforeReply} {
			applied := cut == sqlservers.BeforeReply
			s, clean, gate := gated(t, g, settled, lockTime)
			gate.CutNext(cut, false)
			c := s.raise(t, job, grant(7, "a")) // repeats itself
			for i := range 3 {
				gate.CutNext(cut, false)
				err := s.write(t.Context(), c, chunk(i), "v", nil)
				if applied != (err == nil) || errors.Is(err, fence.ErrUnknown) {
					t.Fatalf("cut %v at chunk %d: %v", cut, i, err)
				}
				if err != nil {
					must(t, s.write(t.Context(), c, chunk(i), "v", nil))
				}
			}
			gate.CutNext(cut, false)
			must(t, s.f.Finish(t.Context(), c))
			if gate.Cuts() != 5 {
				t.Fatalf("%d COMMITs were cut, want 5", gate.Cuts())
			}
			clean.wroteOnce(t, 3)
		}
	})
}

// The whole way is down after the cut: nobody can know, and nothing is guessed.
func TestACutAroundCommitIsUnknownUntilTheServerIsBack(t *testing.T) {
	t.Parallel()
	each(t, through, func(t *testing.T, g target) {
		for _, cut := range []sqlservers.Cut{sqlservers.BeforeIt, sqlservers.BeforeReply} {
			s, clean, gate := gated(t, g, 500*time.Millisecond, lockTime)
			c := s.raise(t, job, grant(7, "a"))
			must(t, s.write(t.Context(), c, chunk(0), "v", nil))
			gate.CutNext(cut, true)
			wants(t, s.write(t.Context(), c, chunk(1), "v", nil), fence.ErrUnknown)
			wants(t, s.write(t.Context(), c, chunk(1), "v", nil), fence.ErrUnknown)
			wants(t, s.f.Finish(t.Context(), c), fence.ErrUnknown)
			gate.Open()
			must(t, s.bill(background(t), c, 1, 3))
			must(t, s.f.Finish(t.Context(), c))
			clean.wroteOnce(t, 3)
		}
	})
}

// bill writes chunks as InTx's documentation says.
func (s *store) bill(ctx context.Context, c fence.Claim, from, to int) error {
	for i := from; i < to; {
		err := s.write(ctx, c, chunk(i), "v", nil)
		switch {
		case err == nil, errors.Is(err, fence.ErrCommitted):
			i++
		case errors.Is(err, fence.ErrStale), errors.Is(err, fence.ErrSequence), ctx.Err() != nil:
			return err
		default: // unknown, or surely not written: the same chunk again
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

func (s *store) wroteOnce(t testing.TB, chunks int) {
	t.Helper()
	for i := range chunks {
		if n := s.count(t, chunk(i)); n != 1 {
			t.Errorf("%s was written %d times", chunk(i), n)
		}
	}
}

// The connection breaks, and the COMMIT is still on its way to the server. Either
// it arrives while it is being settled, and counts; or the session is ended, and
// it never will.
func TestACommitThatIsStillOnItsWayIsSettledForGood(t *testing.T) {
	t.Parallel()
	each(t, through, func(t *testing.T, g target) {
		for _, arrives := range []bool{true, false} {
			lock := lockTime
			if arrives { // long before the session is ended for it
				lock = settled / 2
			}
			s, clean, gate := gated(t, g, settled, lock)
			c := s.raise(t, job, grant(7, "a"))
			gate.CutNext(sqlservers.HeldBack, false)
			between := func() error { return nil }
			if arrives {
				between = func() error { time.AfterFunc(lockTime/3, gate.Deliver); return nil }
			}
			err := s.write(t.Context(), c, chunk(0), "v", between)
			if errors.Is(err, fence.ErrUnknown) || gate.Cuts() != 1 {
				t.Fatalf("not settled: %v", err)
			}
			gate.Deliver()
			if err != nil {
				must(t, s.write(t.Context(), c, chunk(0), "v", nil))
			}
			must(t, s.write(t.Context(), c, chunk(1), "v", nil))
			if arrives && err != nil {
				t.Errorf("it had arrived, and was ended all the same: %v", err)
			}
			clean.wroteOnce(t, 2)
		}
	})
}

// A request of any kind, or its answer, is lost: every call tells the truth.
func TestEveryLostRequestAndAnswerIsReportedRightly(t *testing.T) {
	t.Parallel()
	each(t, append(append([]target{}, servers...), ways...), func(t *testing.T, g target) {
		all := g.at(t)
		all.Settle = settled
		for _, when := range faultsql.BothSides {
			total, every := 0, trials(4, 1) // without -long every fourth, from where chance begins
			for i := rand.IntN(every); ; i += every {
				p, n := all.beside(), &faultsql.Network{}
				clean := p.fresh(t, nil)
				clean.raise(t, job, grant(3, "before"))
				s := p.reopen(t, n.Hook)
				n.Lose(false, faultsql.Nth(i, when))
				s.wholeJob(t, clean)
				if n.Lost() == 0 {
					break
				}
				total++
			}
			if total*every < 16 {
				t.Fatalf("only %d requests were lost: the job has more", total)
			}
		}
	})
}

// wholeJob is raise, three chunks, finish; each step is repeated as long as it
// is told that nothing was done.
func (s *store) wholeJob(t *testing.T, clean *store) {
	t.Helper()
	var c fence.Claim
	fencetest.Told(t, "raise", func() bool { r, err := clean.f.Row(t.Context(), job); return err == nil && r.Fence == 7 }, func() (err error) {
		c, err = s.f.Raise(t.Context(), job, grant(7, "a"))
		return err
	})
	if c.Previous.Fence != 3 || c.Previous.Nonce != "before" {
		t.Fatalf("previous is %+v, want the holder before", c.Previous)
	}
	for i := range 3 {
		fencetest.Told(t, chunk(i), func() bool { return clean.count(t, chunk(i)) == 1 }, func() error {
			return s.write(t.Context(), c, chunk(i), "v", nil)
		})
	}
	fencetest.Told(t, "finish", func() bool { r, err := clean.f.Row(t.Context(), job); return err == nil && r.State == fence.Done }, func() error {
		return s.f.Finish(t.Context(), c)
	})
	clean.wroteOnce(t, 3)
}
