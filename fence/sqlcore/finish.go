package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stint-dev/stint/fence"
)

// errDone ends a transaction that only read.
var errDone = errors.New("nothing to commit")

// AdmitSQL is the check for those who own their transactions (sqlx, an ORM, a
// driver of their own): it must be the transaction's first statement, and must
// report exactly one row affected; otherwise roll back, and Check says why.
//
// It does not count transactions as InTx does: several writers of one grant may
// use it at once, and settling a lost COMMIT answer is up to the caller. So is
// stopping at the first error of any statement: SQLite rolls the whole
// transaction back by itself for some, and every later statement is then
// committed on its own, without the check (see InTx, which guards against it).
func (e *Engine) AdmitSQL(c fence.Claim) (query string, args []any) {
	// It changes a value, because MariaDB can report 0 rows for an update that
	// changes none.
	return e.q.admits, []any{c.Name, int64(c.Grant.Token), c.Grant.Nonce}
}

// Check is fence.Fence's: a plain read, and a hint only.
func (e *Engine) Check(ctx context.Context, c fence.Claim) error {
	if err := checkClaim(c); err != nil {
		return err
	}
	r, err := e.committed(ctx, c.Name)
	switch {
	case err == nil:
		return r.CheckWrite(c.Grant)
	case refusal(err):
		return err
	}
	return e.explain(fmt.Sprintf("check %q", c.Name), err)
}

// Finish is fence.Fence's. A lost answer is settled by repeating it. It refuses
// a claim whose last InTx is not settled: what it wrote may be missing.
//
// A job whose last write and DONE must not come apart calls FinishTx in its
// last InTx instead.
func (e *Engine) Finish(ctx context.Context, c fence.Claim) error {
	seq, done, err := e.enter(ctx, c, "finish")
	if err != nil {
		return err
	}
	defer done()
	if seq.Lost() != "" {
		return fmt.Errorf("fence %q: %w: the claim's last transaction may be missing, so it is not set DONE: "+
			"repeat that transaction with InTx (it settles first), or call Settle", c.Name, fence.ErrUnknown)
	}
	return e.repeat(ctx, fmt.Sprintf("finish %q", c.Name), c.Name, func(ctx context.Context, tx Tx, _ bool) error {
		return e.FinishTx(ctx, tx, c)
	})
}

// FinishTx sets DONE inside a transaction, most usefully one of InTx.
func (e *Engine) FinishTx(ctx context.Context, tx Tx, c fence.Claim) error {
	if err := checkClaim(c); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, e.q.finish, c.Name, int64(c.Grant.Token), c.Grant.Nonce)
	if err != nil || n == 1 {
		return err
	}
	r, err := e.record(ctx, tx, c.Name)
	if err != nil {
		return err
	}
	return r.CheckWrite(c.Grant)
}

const page = 256

// Claims is fence.Fence's. It reads the partial index page by page, in the
// order of the names, and holds no transaction or connection while the loop's
// body runs, so the body may Requeue. An error ends it.
func (e *Engine) Claims(ctx context.Context) iter.Seq2[fence.Row, error] {
	return func(yield func(fence.Row, error) bool) {
		for last, more := "", true; more; {
			var rows []fence.Row
			err := e.plain(ctx, func() (err error) {
				rows, err = e.rows(ctx, e.db, e.q.claims, last, int64(page))
				return err
			})
			if err != nil {
				yield(fence.Row{}, e.explain("list claims", err))
				return
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
				last = r.Name
			}
			more = len(rows) == page
		}
	}
}

func (e *Engine) rows(ctx context.Context, from Tx, query string, args ...any) (all []fence.Row, err error) {
	err = from.Query(ctx, query, args, func(scan func(dest ...any) error) error {
		var r fence.Row
		err := scanRow(scan, &r)
		all = append(all, r)
		return err
	})
	return all, err
}

// Requeue is fence.Fence's. The row must still be RUNNING with exactly the
// owner, nonce and fence of seen.
func (e *Engine) Requeue(ctx context.Context, seen fence.Row) error {
	if err := fence.CheckName(seen.Name); err != nil {
		return e.errorf("%w", err)
	}
	return e.repeat(ctx, fmt.Sprintf("requeue %q", seen.Name), seen.Name, func(ctx context.Context, tx Tx, again bool) error {
		n, err := tx.Exec(ctx, e.q.requeue, seen.Name, int64(seen.Fence), seen.Nonce, int64(seen.Owner))
		if err != nil || n == 1 {
			return err
		}
		now, err := e.record(ctx, tx, seen.Name)
		if err != nil && !errors.Is(err, fence.ErrNoFence) {
			return err
		}
		same := now.Fence == seen.Fence && now.Nonce == seen.Nonce && now.Owner == seen.Owner
		if again && same && now.State == fence.Queued {
			return nil // the first try was applied
		}
		return fmt.Errorf("fence %q: %w: seen RUNNING by %d under fence %d, now %s by %d under fence %d. Nothing was changed; look again",
			seen.Name, fence.ErrChanged, seen.Owner, seen.Fence, orNever(now.State), now.Owner, now.Fence)
	})
}

func orNever(s fence.State) string {
	if s == "" {
		return "never claimed"
	}
	return string(s)
}

// ClaimsSQL is the query behind Claims: after a name, at most so many rows. Its
// arguments are that name and number. It is there to be explained, so that
// operators can see that it reads the partial index.
func (e *Engine) ClaimsSQL() string { return e.q.claims }
