package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Raise is fence.Fence's: one transaction that begins with the locking read, so
// that the claim's Previous holds whatever was committed before it. If the
// answer to its COMMIT is lost it repeats itself until it knows; the error
// matches fence.ErrUnknown only if ctx, or Options.Settle, ended before that.
//
// A raise repeated by the same grant gives the same Previous. Its claim starts
// a sequence of its own: of the two claims, use one.
func (f *Fence) Raise(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	if err := fence.CheckName(name); err != nil {
		return fence.Claim{}, fmt.Errorf("sqlfence: %w", err)
	}
	if err := g.Validate(); err != nil {
		return fence.Claim{}, err
	}
	c := fence.Claim{Name: name, Grant: g}
	err := f.repeat(ctx, fmt.Sprintf("raise %q to %d", name, g.Token), func(ctx context.Context, tx *sql.Tx, _ bool) error {
		if _, err := tx.ExecContext(ctx, f.q.lock, name); err != nil {
			return err
		}
		was, err := f.record(ctx, tx, name)
		if err != nil {
			return err
		}
		repeated, err := f.checkRaise(ctx, tx, was.Row, g)
		if err != nil {
			return err
		}
		c.Seq = fence.NewSequence(was.Seq)
		if repeated {
			c.Previous, err = unpackPrevious(name, was.prev)
			if err != nil {
				return err
			}
			return execOne(ctx, tx, f.q.again, name, g.Token, g.Nonce)
		}
		c.Previous = was.Row
		prev, err := packPrevious(was.Row)
		if err != nil {
			return err
		}
		return execOne(ctx, tx, f.q.raise, g.Token, g.Nonce, g.Token, prev, name, g.Token, g.Token)
	})
	if err != nil {
		return fence.Claim{}, err
	}
	return c, nil
}

// checkRaise applies the rules. A fence of zero is a row that was made a moment
// ago: the name is new, or its row was pruned.
func (f *Fence) checkRaise(ctx context.Context, tx *sql.Tx, was fence.Row, g fence.Grant) (repeated bool, err error) {
	if was.Fence > 0 {
		return was.CheckRaise(g)
	}
	floor, err := f.floor(ctx, tx)
	if err != nil {
		return false, err
	}
	return false, fence.CheckFloor(was.Name, floor, g)
}

func (f *Fence) floor(ctx context.Context, tx *sql.Tx) (t fence.Token, err error) {
	err = tx.QueryRowContext(ctx, f.q.floor).Scan(&t)
	return t, err
}

// execOne runs a statement that has to change exactly one row.
func execOne(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	n, err := execCount(ctx, tx, query, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("sqlfence: a statement changed %d rows where it must change 1: %s", n, query)
	}
	return err
}

func execCount(ctx context.Context, tx *sql.Tx, query string, args ...any) (int64, error) {
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
