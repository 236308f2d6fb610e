package sqlcore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// InTx runs fn in a transaction that first admits the claim. options are the
// client library's for the transaction, nil for its default. What it promises is
// said at sqlfence.Fence.InTx.
func (e *Engine) InTx(ctx context.Context, c fence.Claim, options any, fn func(tx Tx) error) error {
	seq, done, err := e.enter(ctx, c, "transaction")
	if err != nil {
		return err
	}
	defer done()
	if seq.Lost() != "" {
		if err := e.settleFirst(ctx, c, seq); err != nil {
			return err
		}
	}
	return e.inTx(ctx, c, seq, options, fn)
}

func (e *Engine) inTx(ctx context.Context, c fence.Claim, seq *fence.Sequence, options any, fn func(tx Tx) error) error {
	mark, before := rand.Text(), int64(0)
	idle := e.idleTime(ctx)
	a := &Attempt{Options: options, Guarded: true, name: c.Name}
	if e.d.around != nil {
		a.Before, a.After = e.d.around(idle, c.Grant.String())
	}
	how, err := e.begin(ctx, a, func(ctx context.Context, tx Tx) (err error) {
		if before, err = e.admit(ctx, tx, c, seq, mark, idle); err != nil {
			return err
		}
		a.Started = true
		if err := e.call(tx, fn); err != nil {
			return err
		}
		return e.stillOurs(ctx, tx, c, mark)
	})
	switch {
	case errors.Is(err, errNotOurs), how == Gone:
		return e.rolledBack(ctx, c, seq, before, a, err)
	case how == Aborted:
		return e.gaveUp(ctx, c, seq, before, err)
	case how == Ended && a.Started:
		return e.endedInside(ctx, c, seq, a, mark, before, err)
	case how == Sent && err != nil, how == Locked:
		seq.Lose(mark, before)
		return e.answerLost(ctx, c, seq, how, err)
	case err == nil:
		seq.Settle(true, before+1)
		return nil
	}
	if a.Started {
		seq.Settle(false, before)
	} else if n, known := seq.Count(); known {
		seq.Settle(false, n)
	}
	if a.Started || refusal(err) {
		return withCause(ctx, err)
	}
	return e.explain(fmt.Sprintf("transaction under fence %q", c.Name), err)
}

// idleTime is how long the transaction may sit idle at the server, in
// milliseconds: a client that froze must not hold the row for longer than its
// lease.
func (e *Engine) idleTime(ctx context.Context) int64 {
	idle := e.idle
	if left, known := fence.TimeLeft(ctx); known {
		idle = min(idle, left)
	}
	return max(1, idle.Milliseconds())
}

// admit is the transaction's first statement: it takes the lock, checks, and
// counts. It returns the count before it.
func (e *Engine) admit(ctx context.Context, tx Tx, c fence.Claim, seq *fence.Sequence, mark string, idle int64) (before int64, err error) {
	before, known := seq.Count()
	query, args := e.q.admit, []any{mark}
	if e.d.idleInAdmit {
		args = append(args, fmt.Sprintf("%dms", idle))
	}
	args = append(args, c.Name, int64(c.Grant.Token), c.Grant.Nonce)
	if known {
		query, args = e.q.admitSeq, append(args, before)
	}
	n, err := tx.Exec(ctx, query, args...)
	if err != nil || n == 1 && known {
		return before, err
	}
	r, err := e.record(ctx, tx, c.Name)
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
		return fmt.Errorf("fence: claim: %w", err)
	}
	if err := c.Grant.Validate(); err != nil {
		return fmt.Errorf("fence: claim: %w", err)
	}
	return nil
}
