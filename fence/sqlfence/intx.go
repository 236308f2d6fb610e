package sqlfence

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// InTx runs fn in a transaction that first admits the claim: what fn writes is
// committed only if the claim's grant is the fence, in the same atomic step.
// Otherwise nothing is written, and the error says why (fence.ErrStale,
// ErrRepeated, ErrNoFence, ErrNotRaised, ErrSequence).
//
// An error or a panic of fn rolls back; the error is returned as it is, with the
// cause of ctx if that has ended. When ctx ends before COMMIT is sent, the
// transaction is rolled back; not after. While fn runs on SQLite, every other
// writer of the file waits.
//
// fn uses tx alone: it does not commit or roll back, and it calls no writing
// method of this Fence, of the same claim or of another, because that would wait
// for fn itself. On fn's own goroutine that is refused at once (ErrNested); on
// another one that fn waits for, or through another *sql.DB of the same file, it
// waits until its context ends. So does a read outside tx where the *sql.DB has
// one connection only. To set DONE in the same transaction there is FinishTx.
//
// fn returns the first error of any statement. SQLite rolls the whole
// transaction back by itself for some (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), a
// write whose own context ended, a full disk), and what is written after that
// is no part of it. InTx then says ErrRolledBack and does not commit. With a
// driver that offers a commit hook (ncruces, modernc, mattn; InTx takes the
// connection's hook for its own) such a write is refused as well. With any
// other it stands, outside the fence, and the claim is refused from then on:
// raise again, and read how far the work came.
//
// If the answer to COMMIT is lost, InTx finds out whether it was applied, and
// returns nil or an error as if the answer had come. Only if that cannot be
// told within Options.Settle does its error match fence.ErrUnknown. Then call
// InTx again with the same work, as often as it takes: it settles first, and
// where the first try was applied it does not run fn but says
// fence.ErrCommitted, once:
//
//	for chunk < chunks {
//		err := fences.InTx(ctx, claim, nil, func(tx *sql.Tx) error { return bill(tx, chunk) })
//		switch {
//		case err == nil, errors.Is(err, fence.ErrCommitted):
//			chunk++
//		case errors.Is(err, fence.ErrUnknown): // the same chunk again, after a moment
//		default:
//			return err // not billed
//		}
//	}
//
// ErrCommitted speaks of the transaction before, whoever ran it: goroutines that
// share a claim must all stop at ErrUnknown, and settle before any goes on.
//
// A process that dies in between does not need any of it: its successor reads
// after its raise what was committed.
func (f *Fence) InTx(ctx context.Context, c fence.Claim, opts *sql.TxOptions, fn func(tx *sql.Tx) error) error {
	if err := checkClaim(c); err != nil {
		return err
	}
	if opts != nil && opts.ReadOnly {
		return fmt.Errorf("sqlfence: InTx writes the fence row, so TxOptions.ReadOnly cannot be: use Check for a read")
	}
	if err := f.notInside(); err != nil {
		return fmt.Errorf("fence %q: %w", c.Name, err)
	}
	seq, done, err := f.sequence(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	if err := seq.Spoiled(); err != nil {
		return err
	}
	if seq.Lost() != "" {
		if err := f.settleFirst(ctx, c, seq); err != nil {
			return err
		}
	}
	return f.inTx(ctx, c, seq, opts, fn)
}

func (f *Fence) inTx(ctx context.Context, c fence.Claim, seq *fence.Sequence, opts *sql.TxOptions, fn func(tx *sql.Tx) error) error {
	mark, before := rand.Text(), int64(0)
	a := &attempt{opts: opts, guarded: true}
	how, err := f.begin(ctx, a, func(ctx context.Context, tx *sql.Tx) (err error) {
		if before, err = f.admit(ctx, tx, c, seq, mark); err != nil {
			return err
		}
		a.started = true
		if err := f.call(tx, fn); err != nil {
			return err
		}
		return f.stillOurs(ctx, tx, c, mark)
	})
	switch {
	case errors.Is(err, errNotOurs), how == gone:
		return f.rolledBack(ctx, c, seq, before, a, err)
	case how == ended && a.started:
		return f.endedInside(ctx, c, seq, mark, before, err)
	case how == sent && err != nil, how == locked:
		seq.Lose(mark, before)
		return f.answerLost(ctx, c, seq, how, err)
	case err == nil:
		seq.Settle(true, before+1)
		return nil
	}
	if a.started {
		seq.Settle(false, before)
	} else if n, known := seq.Count(); known {
		seq.Settle(false, n)
	}
	if a.started || refusal(err) {
		return withCause(ctx, err)
	}
	return f.explain(fmt.Sprintf("transaction under fence %q", c.Name), err)
}

func (f *Fence) call(tx *sql.Tx, fn func(tx *sql.Tx) error) error {
	defer f.enter()()
	return fn(tx)
}

// admit is the transaction's first statement: it takes the lock, checks, and
// counts. It returns the count before it.
func (f *Fence) admit(ctx context.Context, tx *sql.Tx, c fence.Claim, seq *fence.Sequence, mark string) (before int64, err error) {
	before, known := seq.Count()
	query, args := f.q.admit, []any{mark, c.Name, c.Grant.Token, c.Grant.Nonce}
	if known {
		query, args = f.q.admitSeq, append(args, before)
	}
	n, err := execCount(ctx, tx, query, args...)
	if err != nil || n == 1 && known {
		return before, err
	}
	r, err := f.record(ctx, tx, c.Name)
	switch {
	case err != nil:
		return 0, err
	case n == 1:
		return r.Seq - 1, nil
	}
	if err := r.CheckWrite(c.Grant); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("fence %q: %w: the row counts %d transactions, this claim %d. Nothing was written. A claim has one writer at a time; "+
		"several writers of one grant use AdmitSQL in transactions of their own", c.Name, fence.ErrSequence, r.Seq, before)
}

// withCause adds why ctx ended, which database/sql leaves out: that the lease
// was lost, say.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

func joinCause(err, cause error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w (and it returned: %w)", err, cause)
}

func checkClaim(c fence.Claim) error {
	if err := fence.CheckName(c.Name); err != nil {
		return fmt.Errorf("sqlfence: claim: %w", err)
	}
	if err := c.Grant.Validate(); err != nil {
		return fmt.Errorf("sqlfence: claim: %w", err)
	}
	return nil
}
