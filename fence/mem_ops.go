package fence

import (
	"context"
	"fmt"
	"time"
)

// Row reads the row of one name. A missing one matches ErrNoFence.
func (m *Memory) Row(ctx context.Context, name string) (Row, error) {
	if err := CheckName(name); err != nil {
		return Row{}, fmt.Errorf("fence: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[name]; r != nil {
		return r.Row, context.Cause(ctx)
	}
	return Row{}, fmt.Errorf("fence %q: %w", name, ErrNoFence)
}

// Bar shuts out token and all before it, without a claim: it raises the fence
// of name to exactly token+1, with no grant, if it stands lower. State and owner
// stay. Repeating it is harmless.
func (m *Memory) Bar(ctx context.Context, name string, token Token) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if next := token + 1; !token.Valid() || !next.Valid() {
		return fmt.Errorf("fence: bar %q: token %d is outside 1 to %d", name, token, MaxToken-1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[name]
	if r == nil {
		if m.floor > token { // it refuses token already
			return nil
		}
		r = m.make(name)
		m.rows[name] = r
	}
	if r.Fence <= token {
		r.Fence, r.Nonce, r.touched = token+1, "", time.Now()
	}
	return context.Cause(ctx)
}

// Prune replaces the rows that nobody runs, and that were not touched for idle
// or longer, by one floor for all names: the highest token among them. Only
// where all tokens come from one counter. It returns how many rows were dropped.
func (m *Memory) Prune(ctx context.Context, idle time.Duration) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	if idle < 0 {
		return 0, fmt.Errorf("fence: prune: idle time %v is negative", idle)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, r := range m.rows {
		if r.State == Running || time.Since(r.touched) < idle {
			continue
		}
		top := r.Fence
		if r.Nonce == "" { // barred: its own token is still to be let in
			top--
		}
		m.floor, m.seqs = max(m.floor, top), max(m.seqs, r.Seq+1)
		delete(m.rows, name)
		n++
	}
	return n, nil
}
