package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// ErrRolledBack: the database had rolled the transaction back by itself before
// the function given to InTx returned. Return the first error of any statement.
// The error says whether anything was written after that.
var ErrRolledBack = errors.New("the database had rolled the transaction back itself")

// errNotOurs is what the look before COMMIT found.
var errNotOurs = errors.New("the transaction that was admitted is no longer open")

// stillOurs looks, before COMMIT, whether the transaction is still the one that
// was admitted: its mark can be seen in it, and its grant is the fence. A strict
// database keeps a transaction that failed open until its end, so nothing is to
// be looked for there.
func (e *Engine) stillOurs(ctx context.Context, tx Tx, c fence.Claim, mark string) error {
	if e.d.strict {
		return nil
	}
	var ours int64
	args := []any{c.Name, int64(c.Grant.Token), c.Grant.Nonce, mark}
	if e.o.Own != nil {
		args = append(args, c.Name)
	}
	err := one(ctx, tx, e.q.ours, args, &ours)
	switch {
	case err == nil:
		return nil
	case e.db.Over(err): // fn ended it; COMMIT will say so
		return nil
	case errors.Is(err, errNoRow):
		return errNotOurs
	}
	return fmt.Errorf("fence %q: the look before COMMIT failed: %w", c.Name, err)
}

// rolledBack says what a transaction that the database ended leaves behind.
// With a guard nothing was committed after it. Without one nobody knows, and the
// claim is not to be used again: a repetition might do the work twice.
func (e *Engine) rolledBack(ctx context.Context, c fence.Claim, seq *fence.Sequence, before int64, a *Attempt, cause error) error {
	found := errors.Is(cause, errNotOurs)
	if a.Guarded && !found && !a.Refused {
		seq.Settle(false, before) // fn stopped at the first error: as ever
		return withCause(ctx, cause)
	}
	if found {
		cause = nil
	}
	if a.Guarded {
		seq.Settle(false, before)
		return joinCause(fmt.Errorf("fence %q: %w, because of an earlier statement's error. Nothing was written: what came after that error was refused. "+
			"The function has to return the first error of any statement", c.Name, ErrRolledBack), cause)
	}
	err := fmt.Errorf("fence %q: %w, because of an earlier statement's error. If the function wrote anything after that error, it stands, outside the fence. "+
		"Do not repeat the work blindly: raise again, and read how far it came. The function has to return the first error of any statement", c.Name, ErrRolledBack)
	seq.Spoil(err)
	return joinCause(err, cause)
}

// ErrEnded: the function given to InTx committed or rolled back the transaction
// itself. The error says which.
var ErrEnded = errors.New("the function ended the transaction itself")

func (e *Engine) endedInside(ctx context.Context, c fence.Claim, seq *fence.Sequence, a *Attempt, mark string, before int64, cause error) error {
	seq.Lose(mark, before)
	if ctx.Err() != nil && cause != nil {
		// Most likely database/sql rolled back because ctx ended. Had fn
		// committed, the mark would show in a plain read, which waits for nobody.
		// Where even that fails, the next transaction settles it first.
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		var r record
		err := e.plain(short, func() (err error) {
			r, err = e.query(short, e.db, e.q.read, c.Name)
			return err
		})
		if err == nil && r.mark != mark {
			seq.Settle(false, before)
		}
		if err != nil || r.mark != mark {
			return withCause(ctx, cause)
		}
	}
	applied, err := e.look(ctx, c, seq)
	switch {
	case err != nil:
		return fmt.Errorf("fence %q: %w, and whether it committed is not known yet: %w", c.Name, ErrEnded, joinCause(err, cause))
	case applied:
		return joinCause(fmt.Errorf("fence %q: %w: it committed, and what it wrote until then stands. Anything written after that stands as well, outside the fence. InTx commits when the function returns nil", c.Name, ErrEnded), cause)
	}
	if a.ByStatement { // the transaction object went on, without a transaction
		a.Guarded = false
		return e.rolledBack(ctx, c, seq, before, a, joinCause(errNotOurs, cause))
	}
	return joinCause(fmt.Errorf("fence %q: %w: it rolled back, or its COMMIT was refused, and nothing was written. InTx commits when the function returns nil, and rolls back when it returns an error", c.Name, ErrEnded), cause)
}

// gaveUp: the function swallowed a statement's error, after which the database
// had refused everything.
func (e *Engine) gaveUp(ctx context.Context, c fence.Claim, seq *fence.Sequence, before int64, cause error) error {
	seq.Settle(false, before)
	return withCause(ctx, joinCause(fmt.Errorf("fence %q: %w, because of an earlier statement's error. Nothing was written. "+
		"The function has to return the first error of any statement", c.Name, ErrRolledBack), cause))
}
