package sqlcore

import (
	"context"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Prune replaces the rows that nobody runs, and that were neither finished nor
// requeued for idle or longer, by one floor for the whole table: the highest
// token among them. It returns how many rows were dropped. It goes page by page,
// each in a transaction of its own.
func (e *Engine) Prune(ctx context.Context, idle time.Duration) (n int, err error) {
	if idle < 0 {
		return 0, e.errorf("prune: idle time %v is negative", idle)
	}
	if e.o.Own != nil {
		return 0, e.errorf("prune: table %s is not the fence's own: its rows are yours to delete, and their fences with them", e.o.Table)
	}
	what, until := "prune "+e.o.Table, int64(-1)
	for more := true; more; {
		dropped := 0
		err := e.repeat(ctx, what, "", func(ctx context.Context, tx Tx, _ bool) error {
			// On SQLite the write that takes the lock, before anything is read.
			if _, err := tx.Exec(ctx, e.q.setFloor, int64(0), "floor", int64(0)); err != nil {
				return err
			}
			if until < 0 {
				var now int64
				if err := one(ctx, tx, e.q.now, nil, &now); err != nil {
					return err
				}
				until = now - idle.Milliseconds()
			}
			rows, err := e.rows(ctx, tx, e.q.idle, until, int64(page))
			if err != nil {
				return err
			}
			more = len(rows) == page
			gone, err := e.dropRows(ctx, tx, rows)
			dropped = max(dropped, gone) // a repetition of a page that was applied finds none
			return err
		})
		n += dropped
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// dropRows deletes rows that are locked, and leaves their floor.
func (e *Engine) dropRows(ctx context.Context, tx Tx, rows []fence.Row) (n int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	var top fence.Token
	var seq int64
	names := make([]any, len(rows))
	for i, r := range rows {
		names[i] = r.Name
		if r.Fence == 0 { // a raise that was refused has left it: no row to anybody
			continue
		}
		n++
		if seq = max(seq, r.Seq+1); r.Nonce == "" { // barred: its own token is still to be let in
			r.Fence--
		}
		top = max(top, r.Fence)
	}
	// The counts have a floor as well: a row made anew must not come by the
	// count that a dropped one had, or a lost COMMIT would be settled wrongly.
	for _, floor := range []struct {
		k string
		v int64
	}{{"floor", int64(top)}, {"seq", seq}} {
		if _, err := tx.Exec(ctx, e.q.setFloor, floor.v, floor.k, floor.v); err != nil {
			return 0, err
		}
	}
	_, err = tx.Exec(ctx, e.sql("DELETE FROM {t} WHERE [name] IN (?"+strings.Repeat(", ?", len(rows)-1)+")"), names...)
	return n, err
}
