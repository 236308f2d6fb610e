package sqlcore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Settle finds out how the claim's last InTx ended whose error matched
// fence.ErrUnknown: whether it was applied. It says so again until the next
// InTx. Without anything to settle it tells whether the last InTx of this claim
// was applied. An error that matches fence.ErrUnknown means "still not known".
//
// A loop that simply calls InTx again does not need it (see InTx).
func (e *Engine) Settle(ctx context.Context, c fence.Claim) (applied bool, err error) {
	seq, done, err := e.enter(ctx, c, "settle")
	if err != nil {
		return false, err
	}
	defer done()
	if seq.Lost() == "" {
		return seq.Applied(), nil
	}
	return e.look(ctx, c, seq)
}

// settleFirst stands before the next transaction of an unsettled claim. Where
// the earlier one turns out to be applied, the next is most likely its
// repetition and must not run.
func (e *Engine) settleFirst(ctx context.Context, c fence.Claim, seq *fence.Sequence) error {
	applied, err := e.look(ctx, c, seq)
	switch {
	case err != nil:
		return err
	case applied:
		return fmt.Errorf("fence %q: %w: its answer had been lost. This one was not run; do not repeat that one, go on to the next", c.Name, fence.ErrCommitted)
	}
	return nil
}

// answerLost finds out what became of the transaction that was just sent.
func (e *Engine) answerLost(ctx context.Context, c fence.Claim, seq *fence.Sequence, how Outcome, cause error) error {
	applied, err := e.look(ctx, c, seq)
	switch {
	case err != nil:
		return fmt.Errorf("%w (COMMIT had failed with: %w)", err, cause)
	case applied:
		return nil
	case how == Locked:
		return fmt.Errorf("fence %q: %w when COMMIT was sent (%w): nothing was written, and it may be repeated. %s", c.Name, ErrBusy, cause, e.d.reader)
	}
	return fmt.Errorf("fence %q: COMMIT failed and was not applied, nothing was written; it may be repeated: %w", c.Name, cause)
}

// look reads the row on another connection, with a lock, so that a COMMIT that
// is still under way at the server comes first. The mark is the last admitted
// transaction's; mark and count survive a successor's raise.
//
// It has Options.Settle even if ctx has ended: to know is worth the wait.
func (e *Engine) look(ctx context.Context, c fence.Claim, seq *fence.Sequence) (applied bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.settle)
	defer cancel()
	var r record
	var wait backoff
	for {
		r, err = e.lockedRead(ctx, c)
		if err == nil || refusal(err) || !wait.sleep(ctx) {
			break
		}
	}
	before, _ := seq.Count()
	switch {
	case err != nil:
		return false, fmt.Errorf("fence %q: %w: the answer to COMMIT was lost and the row could not be read: %w. "+
			"Repeat the same work with InTx (it settles first), or call Settle; do not go on to other work", c.Name, fence.ErrUnknown, err)
	case r.mark == seq.Lost():
		seq.Settle(true, r.Seq)
		return true, nil
	case r.Seq == before:
		seq.Settle(false, before)
		return false, nil
	}
	err = fmt.Errorf("fence %q: %w: the answer to COMMIT was lost, and others have committed since (the row counts %d, this claim %d): "+
		"only the data can tell. Raise again if the lease is still held, and read how far the work came", c.Name, fence.ErrUnknown, r.Seq, before)
	if stale := r.CheckWrite(c.Grant); stale != nil {
		err = fmt.Errorf("%w (%w)", err, stale)
	}
	return false, err
}

// lockedRead leaves nothing behind: the transaction is always rolled back. What
// holds the row past the lock timeout is the lost transaction itself, as a rule:
// its connection is gone, and the server does not know it yet.
func (e *Engine) lockedRead(ctx context.Context, c fence.Claim) (r record, err error) {
	a := &Attempt{over: &right{name: c.Name, grant: c.Grant}}
	_, err = e.locking(ctx, a, c.Name, func(ctx context.Context, tx Tx, was record) error {
		r = was
		return errDone
	})
	if err == errDone {
		if r.Fence == 0 {
			return record{}, e.noFence(c.Name)
		}
		return r, nil
	}
	if errors.Is(err, fence.ErrStale) {
		// A successor holds the row now. Its raise had the row's lock before, so
		// the lost transaction has ended, and what was committed tells how.
		return e.committed(ctx, c.Name)
	}
	return record{}, err
}
