package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Bar shuts out token and all before it, without a claim: it raises the fence
// of name to exactly token+1, with no grant, if it stands lower. It is the first
// half of breaking a lease by hand; the holder's next write is refused, whatever
// it believes. The next holder, token+1 or later, raises as always. State and
// owner stay. Repeating it is harmless.
func (f *Fence) Bar(ctx context.Context, name string, token fence.Token) error {
	if err := fence.CheckName(name); err != nil {
		return fmt.Errorf("sqlfence: %w", err)
	}
	if next := token + 1; !token.Valid() || !next.Valid() {
		return fmt.Errorf("sqlfence: bar %q: token %d is outside 1 to %d", name, token, fence.MaxToken-1)
	}
	return f.repeat(ctx, fmt.Sprintf("bar token %d of %q", token, name), func(ctx context.Context, tx *sql.Tx, _ bool) error {
		if _, err := tx.ExecContext(ctx, f.q.lock, name); err != nil {
			return err
		}
		was, err := f.record(ctx, tx, name)
		if err != nil {
			return err
		}
		if was.Fence == 0 {
			// Where the floor refuses token already, a row of its own would let
			// in what the floor refuses.
			floor, err := f.floor(ctx, tx)
			if err != nil {
				return err
			}
			if floor > token {
				_, err = tx.ExecContext(ctx, f.q.drop, name)
				return err
			}
		}
		_, err = tx.ExecContext(ctx, f.q.bar, token+1, name, token)
		return err
	})
}

// Prune replaces the rows that nobody runs, and that were neither finished nor
// requeued for idle or longer, by one floor for the whole table: the highest
// token among them. A name without a row is then raised only by a token above
// the floor. It returns how many rows were dropped.
//
// Only for tables whose tokens all come from one counter (one SQLite or SQL
// authority): with a counter per name, the floor of a busy name would refuse a
// rightful holder of a quiet one. Take an idle time well above the longest lease.
func (f *Fence) Prune(ctx context.Context, idle time.Duration) (n int, err error) {
	if idle < 0 {
		return 0, fmt.Errorf("sqlfence: prune: idle time %v is negative", idle)
	}
	err = f.repeat(ctx, "prune "+f.table, func(ctx context.Context, tx *sql.Tx, _ bool) error {
		// The write that takes the lock, before anything is read.
		if _, err := tx.ExecContext(ctx, f.q.setFloor, 0, "floor", 0); err != nil {
			return err
		}
		var now, top, seq int64
		if err := tx.QueryRowContext(ctx, f.q.idle, idle.Milliseconds()).Scan(&now, &top, &seq); err != nil {
			return err
		}
		// The counts have a floor as well: a row made anew must not come by the
		// count that a dropped one had, or a lost COMMIT would be settled wrongly.
		for k, v := range map[string]int64{"floor": top, "seq": seq} {
			if _, err := tx.ExecContext(ctx, f.q.setFloor, v, k, v); err != nil {
				return err
			}
		}
		gone, err := execCount(ctx, tx, f.q.prune, now-idle.Milliseconds())
		n = max(n, int(gone)) // a repetition of a prune that was applied finds none
		return err
	})
	return n, err
}
