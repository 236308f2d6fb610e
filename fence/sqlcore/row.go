package sqlcore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// record is a row with what only this package looks at.
type record struct {
	fence.Row
	mark string // of the last transaction that was admitted
	prev string // the row before the last raise, as JSON
}

// scanRow reads plain types: not every client library knows ours.
func scanRow(scan func(dest ...any) error, r *fence.Row, more ...any) error {
	var top, owner, since int64
	var state string
	err := scan(append([]any{&r.Name, &top, &r.Nonce, &state, &owner, &since, &r.Seq}, more...)...)
	r.Fence, r.Owner, r.State = fence.Token(top), fence.Token(owner), fence.State(state)
	if since > 0 {
		r.Since = time.UnixMilli(since)
	}
	return err
}

// sql fills in a statement that is not one of the queries.
func (e *Engine) sql(s string) string { return e.d.placeholders(e.d.filler(e.o)(s)) }

// query reads a row by a statement for one.
func (e *Engine) query(ctx context.Context, from Tx, q string, args ...any) (r record, err error) {
	found := false
	err = from.Query(ctx, q, args, func(scan func(dest ...any) error) error {
		found = true
		return scanRow(scan, &r.Row, &r.mark, &r.prev)
	})
	if err == nil && !found {
		err = errNoRow
	}
	return r, err
}

// record reads a row; a missing one matches fence.ErrNoFence, and so does one
// that nobody has raised yet.
func (e *Engine) record(ctx context.Context, from Tx, name string) (record, error) {
	r, err := e.query(ctx, from, e.q.read, name)
	if errors.Is(err, errNoRow) || err == nil && r.Fence == 0 {
		return record{}, e.noFence(name)
	}
	return r, err
}

func (e *Engine) noFence(name string) error {
	return fmt.Errorf("fence %q: %w in table %s: nobody raised it here, or it was pruned. Nothing was written; "+
		"a holder raises the fence before its first write, in the database that it writes to", name, fence.ErrNoFence, e.o.Table)
}

// errFresh ends a transaction that found no row to lock.
var errFresh = errors.New("the row has to be made first")

// lock takes the row's lock and reads it under that. A fence of zero is a row
// that was made a moment ago: the name is new, or its row was pruned.
func (e *Engine) lock(ctx context.Context, tx Tx, name string) (r record, err error) {
	q, args := e.lockWait(e.q.lock), []any{name}
	if e.d.numbered {
		args = []any{e.lockTimeoutText(), name}
	}
	if e.d.apart || e.o.Own != nil && !e.d.numbered {
		if _, err = tx.Exec(ctx, q, args...); err == nil {
			r, err = e.query(ctx, tx, e.q.locked, name)
		}
	} else {
		r, err = e.query(ctx, tx, q, args...)
	}
	if errors.Is(err, errNoRow) {
		if e.o.Own != nil {
			return r, fmt.Errorf("fence %q: %w: table %s has no such row, and it is not the fence's to make. Nothing was written", name, fence.ErrNoFence, e.o.Table)
		}
		return r, errFresh
	}
	return r, err
}

func (e *Engine) lockTimeoutText() string {
	return fmt.Sprintf("%dms", max(1, e.lockTimeout.Milliseconds()))
}

// locking runs a transaction that begins with the row's lock.
func (e *Engine) locking(ctx context.Context, a *Attempt, name string, fn func(ctx context.Context, tx Tx, r record) error) (Outcome, error) {
	return e.making(ctx, a, name, func(ctx context.Context, tx Tx) error {
		r, err := e.lock(ctx, tx, name)
		if err != nil {
			return err
		}
		return fn(ctx, tx, r)
	})
}

// making runs a transaction that may find no row (errFresh): the row is made,
// and the transaction repeated.
func (e *Engine) making(ctx context.Context, a *Attempt, name string, fn func(ctx context.Context, tx Tx) error) (Outcome, error) {
	a.name = name
	for {
		how, err := e.begin(ctx, a, fn)
		if !errors.Is(err, errFresh) {
			return how, err
		}
		if _, err := e.db.Exec(ctx, e.q.fresh, e.lockTimeoutText(), name); err != nil {
			if what := e.d.kind(err); what != conflict && what != cut {
				return NotSent, e.freshBlocked(name, err)
			}
		}
	}
}

// freshBlocked: only SQL by hand makes a row inside of a transaction, and what
// it has not committed nobody sees.
func (e *Engine) freshBlocked(name string, err error) error {
	if e.d.kind(err) != timedOut {
		return err
	}
	return fmt.Errorf("%w: a session has made the row of %q in a transaction that it has not ended. It cannot be told which: "+
		"look at pg_stat_activity for the oldest transaction that is idle. Nothing was written (%w)", ErrBlocked, name, err)
}

// Row reads the row of one name. A missing one matches fence.ErrNoFence.
func (e *Engine) Row(ctx context.Context, name string) (fence.Row, error) {
	if err := fence.CheckName(name); err != nil {
		return fence.Row{}, e.errorf("%w", err)
	}
	r, err := e.committed(ctx, name)
	if err != nil && !refusal(err) {
		return fence.Row{}, e.explain(fmt.Sprintf("read %q", name), err)
	}
	return r.Row, err
}

// The row before a raise is kept in the row, so that a repeated raise gives the
// same Previous: a holder that never got the first answer still learns how the
// last one left things. The SQL functions write the same form.
type previous struct {
	Fence fence.Token `json:"fence"`
	Nonce string      `json:"nonce,omitempty"`
	State fence.State `json:"state,omitempty"`
	Owner fence.Token `json:"owner,omitempty"`
	Since int64       `json:"since,omitempty"`
	Seq   int64       `json:"seq,omitempty"`
}

func packPrevious(r fence.Row) (string, error) {
	p := previous{r.Fence, r.Nonce, r.State, r.Owner, 0, r.Seq}
	if !r.Since.IsZero() {
		p.Since = r.Since.UnixMilli()
	}
	b, err := json.Marshal(p)
	return string(b), err
}

func unpackPrevious(name, s string) (fence.Row, error) {
	var p previous
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return fence.Row{}, fmt.Errorf("fence %q: the row before the raise cannot be read back from column prev: %w", name, err)
	}
	r := fence.Row{Name: name, Fence: p.Fence, Nonce: p.Nonce, State: p.State, Owner: p.Owner, Seq: p.Seq}
	if p.Since > 0 {
		r.Since = time.UnixMilli(p.Since)
	}
	return r, nil
}
