package sqlfence

import (
	"context"
	"database/sql"
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

type scanner interface{ Scan(dest ...any) error }

func scanRow(from scanner, r *fence.Row, more ...any) error {
	var since int64
	err := from.Scan(append([]any{&r.Name, &r.Fence, &r.Nonce, &r.State, &r.Owner, &since, &r.Seq}, more...)...)
	if since > 0 {
		r.Since = time.UnixMilli(since)
	}
	return err
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// record reads a row; a missing one matches fence.ErrNoFence.
func (f *Fence) record(ctx context.Context, from querier, name string) (record, error) {
	var r record
	err := scanRow(from.QueryRowContext(ctx, f.q.read, name), &r.Row, &r.mark, &r.prev)
	if errors.Is(err, sql.ErrNoRows) {
		return record{}, f.noFence(name)
	}
	return r, err
}

func (f *Fence) noFence(name string) error {
	return fmt.Errorf("fence %q: %w in table %s: nobody raised it here, or it was pruned. Nothing was written; "+
		"a holder raises the fence before its first write, in the database that it writes to", name, fence.ErrNoFence, f.table)
}

// Row reads the row of one name. A missing one matches fence.ErrNoFence.
func (f *Fence) Row(ctx context.Context, name string) (fence.Row, error) {
	if err := fence.CheckName(name); err != nil {
		return fence.Row{}, fmt.Errorf("sqlfence: %w", err)
	}
	r, err := f.record(ctx, f.db, name)
	if err != nil && !refusal(err) {
		return fence.Row{}, f.explain(fmt.Sprintf("read %q", name), err)
	}
	return r.Row, err
}

// The row before a raise is kept in the row, so that a repeated raise gives the
// same Previous: a holder that never got the first answer still learns how the
// last one left things.
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
