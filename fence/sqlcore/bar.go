package sqlcore

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Bar shuts out token and all before it, without a claim: it raises the fence
// of name to exactly token+1, with no grant, if it stands lower. State and owner
// stay. Repeating it is harmless.
func (e *Engine) Bar(ctx context.Context, name string, token fence.Token) error {
	if err := fence.CheckName(name); err != nil {
		return e.errorf("%w", err)
	}
	if next := token + 1; !token.Valid() || !next.Valid() {
		return e.errorf("bar %q: token %d is outside 1 to %d", name, token, fence.MaxToken-1)
	}
	a := &Attempt{over: &right{name: name, grant: fence.Grant{Token: token}, bar: true}}
	return e.repeatLocking(ctx, a, fmt.Sprintf("bar token %d of %q", token, name), name, func(ctx context.Context, tx Tx, was record) error {
		if was.Fence == 0 {
			// Where the floor refuses token already, a row of its own would let
			// in what the floor refuses.
			floor, seq, err := e.floors(ctx, tx)
			if err != nil {
				return err
			}
			if floor > token {
				if e.o.Own == nil {
					_, err = tx.Exec(ctx, e.q.drop, name)
				}
				return err
			}
			was.Seq = max(was.Seq, seq)
		}
		_, err := tx.Exec(ctx, e.q.bar, int64(token+1), was.Seq, name, int64(token))
		return err
	})
}
