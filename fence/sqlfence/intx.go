package sqlfence

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// InTx runs fn in a transaction that first admits the claim: what fn writes is
// committed only if the claim's grant is the fence, in the same atomic step.
// Otherwise nothing is written, and the error says why (fence.ErrStale,
// ErrRepeated, ErrNoFence, ErrNotRaised, ErrSequence).
//
// An error or a panic of fn rolls back; the error is returned as it is, with the
// cause of ctx if that has ended. fn uses tx alone, does not commit or roll back, and does not use the same claim
// again. When ctx ends before COMMIT is sent, the transaction is rolled back;
// not after. While fn runs on SQLite, every other writer of the file waits.
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
	seq, done, err := f.sequence(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	if seq.Lost() != "" {
		if err := f.settleFirst(ctx, c, seq); err != nil {
			return err
		}
	}
	return f.inTx(ctx, c, seq, opts, fn)
}

func (f *Fence) inTx(ctx context.Context, c fence.Claim, seq *fence.Sequence, opts *sql.TxOptions, fn func(tx *sql.Tx) error) error {
	mark := rand.Text()
	before, started := int64(0), false
	how, err := f.begin(ctx, opts, &started, func(ctx context.Context, tx *sql.Tx) (err error) {
		if before, err = f.admit(ctx, tx, c, seq, mark); err != nil {
			return err
		}
		started = true
		return fn(tx)
	})
	switch {
	case how == ended && started:
		return f.endedInside(ctx, c, seq, mark, before, err)
	case how == sent && err != nil:
		seq.Lose(mark, before)
		return f.answerLost(ctx, c, seq, err)
	case err == nil:
		seq.Settle(true, before+1)
		return nil
	}
	if started {
		seq.Settle(false, before)
	} else if n, known := seq.Count(); known {
		seq.Settle(false, n)
	}
	if started || refusal(err) {
		return withCause(ctx, err)
	}
	return f.explain(fmt.Sprintf("transaction under fence %q", c.Name), err)
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

// ErrEnded: the function given to InTx committed or rolled back the transaction
// itself. The error says which.
var ErrEnded = errors.New("the function ended the transaction itself")

func (f *Fence) endedInside(ctx context.Context, c fence.Claim, seq *fence.Sequence, mark string, before int64, cause error) error {
	seq.Lose(mark, before)
	if ctx.Err() != nil && cause != nil {
		// Most likely database/sql rolled back because ctx ended. Had fn
		// committed, the mark would show in a plain read, which waits for nobody.
		// Where even that fails, the next transaction settles it first.
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		r, err := f.record(short, f.db, c.Name)
		if err == nil && r.mark != mark {
			seq.Settle(false, before)
		}
		if err != nil || r.mark != mark {
			return withCause(ctx, cause)
		}
	}
	applied, err := f.look(ctx, c, seq)
	switch {
	case err != nil:
		return fmt.Errorf("fence %q: %w, and whether it committed is not known yet: %w", c.Name, ErrEnded, joinCause(err, cause))
	case applied:
		return joinCause(fmt.Errorf("fence %q: %w: it committed, and what it wrote until then stands. InTx commits when the function returns nil", c.Name, ErrEnded), cause)
	}
	return joinCause(fmt.Errorf("fence %q: %w: it rolled back, and nothing was written. InTx rolls back when the function returns an error", c.Name, ErrEnded), cause)
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

// sequence takes the claim's turn. A claim that came without a Seq has none of
// its own; what is kept for it is only a transaction that was not settled.
func (f *Fence) sequence(ctx context.Context, c fence.Claim) (seq *fence.Sequence, done func(), err error) {
	if c.Seq != nil {
		if err := c.Seq.Lock(ctx); err != nil {
			return nil, nil, err
		}
		return c.Seq, c.Seq.Unlock, nil
	}
	key := handed{c.Name, c.Grant}
	f.mu.Lock()
	seq, kept := f.lost[key]
	f.mu.Unlock()
	if !kept {
		seq = &fence.Sequence{}
	}
	if err := seq.Lock(ctx); err != nil {
		return nil, nil, err
	}
	return seq, func() {
		f.mu.Lock()
		if seq.Lost() != "" {
			f.lost[key] = seq
		} else if f.lost[key] == seq {
			delete(f.lost, key)
		}
		f.mu.Unlock()
		seq.Unlock()
	}, nil
}
