package sqlcore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Raise is fence.Fence's: one transaction that begins with the locking read, so
// that the claim's Previous holds whatever was committed before it.
func (e *Engine) Raise(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	if err := fence.CheckName(name); err != nil {
		return fence.Claim{}, e.errorf("%w", err)
	}
	if err := g.Validate(); err != nil {
		return fence.Claim{}, err
	}
	c := fence.Claim{Name: name, Grant: g}
	a := &Attempt{over: &right{name: name, grant: g}}
	err := e.again(ctx, fmt.Sprintf("raise %q to %d", name, g.Token), func(ctx context.Context) (Outcome, error) {
		return e.making(ctx, a, name, func(ctx context.Context, tx Tx) error { return e.raise(ctx, tx, &c) })
	}, func() {})
	if err != nil {
		return fence.Claim{}, err
	}
	return c, nil
}

// raise is one transaction of Raise.
func (e *Engine) raise(ctx context.Context, tx Tx, c *fence.Claim) (err error) {
	was, locked := record{}, false
	if e.d.raise != nil {
		query, args := e.d.raise(e, c.Name, c.Grant)
		if query != "" {
			was, err = e.query(ctx, tx, query, args...)
			locked = err == nil
		}
		switch {
		case err != nil && !errors.Is(err, errNoRow):
			return err
		case locked && was.Fence == c.Grant.Token && was.Nonce == c.Grant.Nonce:
			c.Seq = fence.NewSequence(was.Seq)
			c.Previous, err = unpackPrevious(c.Name, was.prev)
			return err
		}
	}
	if !locked {
		if was, err = e.lock(ctx, tx, c.Name); err != nil {
			return err
		}
	}
	return e.raiseFrom(ctx, tx, c, was)
}

// raiseFrom goes by the row as it is under its lock.
func (e *Engine) raiseFrom(ctx context.Context, tx Tx, c *fence.Claim, was record) error {
	name, g := c.Name, c.Grant
	repeated, err := e.checkRaise(ctx, tx, &was.Row, g)
	if err != nil {
		return err
	}
	c.Seq = fence.NewSequence(was.Seq)
	if repeated {
		if c.Previous, err = unpackPrevious(name, was.prev); err != nil {
			return err
		}
		return e.exactlyOne(ctx, tx, e.q.again, name, int64(g.Token), g.Nonce)
	}
	c.Previous = was.Row
	prev, err := packPrevious(was.Row)
	if err != nil {
		return err
	}
	t := int64(g.Token)
	return e.exactlyOne(ctx, tx, e.q.raise, t, g.Nonce, t, prev, was.Seq, name, t, t)
}

// checkRaise applies the rules. A new row begins with the count of those that
// were pruned.
func (e *Engine) checkRaise(ctx context.Context, tx Tx, was *fence.Row, g fence.Grant) (repeated bool, err error) {
	if was.Fence > 0 {
		return was.CheckRaise(g)
	}
	floor, seq, err := e.floors(ctx, tx)
	if err != nil {
		return false, err
	}
	was.Seq = max(was.Seq, seq)
	return false, fence.CheckFloor(was.Name, floor, g)
}

// floors are read under the row's lock: a prune that has dropped an earlier row
// of the name was committed before this one could be made.
func (e *Engine) floors(ctx context.Context, tx Tx) (fence.Token, int64, error) {
	var floor, seq int64
	err := one(ctx, tx, e.q.floors, nil, &floor, &seq)
	return fence.Token(floor), seq, err
}
