package sqlfence

import (
	"context"
	"database/sql"
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
func (f *Fence) AdmitSQL(c fence.Claim) (query string, args []any) {
	// It changes a value, because MariaDB can report 0 rows for an update that
	// changes none.
	return f.q.admits, []any{c.Name, int64(c.Grant.Token), c.Grant.Nonce}
}

// Check is fence.Fence's: a plain read, and a hint only.
func (f *Fence) Check(ctx context.Context, c fence.Claim) error {
	if err := checkClaim(c); err != nil {
		return err
	}
	r, err := f.record(ctx, f.db, c.Name)
	switch {
	case err == nil:
		return r.CheckWrite(c.Grant)
	case refusal(err):
		return err
	}
	return f.explain(fmt.Sprintf("check %q", c.Name), err)
}

// Finish is fence.Fence's. A lost answer is settled by repeating it. It refuses
// a claim whose last InTx is not settled: what it wrote may be missing.
//
// A job whose last write and DONE must not come apart calls FinishTx in its
// last InTx instead.
func (f *Fence) Finish(ctx context.Context, c fence.Claim) error {
	if err := checkClaim(c); err != nil {
		return err
	}
	if err := f.notInside(); err != nil {
		return fmt.Errorf("fence %q: finish: %w", c.Name, err)
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
		return fmt.Errorf("fence %q: %w: the claim's last transaction may be missing, so it is not set DONE: "+
			"repeat that transaction with InTx (it settles first), or call Settle", c.Name, fence.ErrUnknown)
	}
	return f.repeat(ctx, fmt.Sprintf("finish %q", c.Name), func(ctx context.Context, tx *sql.Tx, _ bool) error {
		return f.FinishTx(ctx, tx, c)
	})
}

// FinishTx sets DONE inside a transaction, most usefully one of InTx.
func (f *Fence) FinishTx(ctx context.Context, tx *sql.Tx, c fence.Claim) error {
	if err := checkClaim(c); err != nil {
		return err
	}
	n, err := execCount(ctx, tx, f.q.finish, c.Name, c.Grant.Token, c.Grant.Nonce)
	if err != nil || n == 1 {
		return err
	}
	r, err := f.record(ctx, tx, c.Name)
	if err != nil {
		return err
	}
	return r.CheckWrite(c.Grant)
}

const page = 256

// Claims is fence.Fence's. It reads the partial index page by page, in the
// order of the names, and holds no transaction or connection while the loop's
// body runs, so the body may Requeue. An error ends it.
func (f *Fence) Claims(ctx context.Context) iter.Seq2[fence.Row, error] {
	return func(yield func(fence.Row, error) bool) {
		for last, more := "", true; more; {
			rows, err := f.claims(ctx, last)
			if err != nil {
				yield(fence.Row{}, f.explain("list claims", err))
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

func (f *Fence) claims(ctx context.Context, after string) (all []fence.Row, err error) {
	rows, err := f.db.QueryContext(ctx, f.q.claims, after, page)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r fence.Row
		if err := scanRow(rows, &r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// Requeue is fence.Fence's. The row must still be RUNNING with exactly the
// owner, nonce and fence of seen.
func (f *Fence) Requeue(ctx context.Context, seen fence.Row) error {
	if err := fence.CheckName(seen.Name); err != nil {
		return fmt.Errorf("sqlfence: %w", err)
	}
	return f.repeat(ctx, fmt.Sprintf("requeue %q", seen.Name), func(ctx context.Context, tx *sql.Tx, again bool) error {
		n, err := execCount(ctx, tx, f.q.requeue, seen.Name, seen.Fence, seen.Nonce, seen.Owner)
		if err != nil || n == 1 {
			return err
		}
		now, err := f.record(ctx, tx, seen.Name)
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
func (f *Fence) ClaimsSQL() string { return f.q.claims }
