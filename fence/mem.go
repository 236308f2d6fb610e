package fence

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// Memory is a Fence in the memory of one process, for tests and for resources
// that live no longer than the process. It forgets every fence at a restart,
// and with them what it refused.
//
// Its writes go through Do, which is to it what a transaction is to a database.
type Memory struct {
	mu    sync.Mutex
	rows  map[string]*memRow
	floor Token // of the tokens of pruned rows
	seqs  int64 // where the count of a new row begins: above those of pruned rows
}

type memRow struct {
	Row
	previous Row
	touched  time.Time
}

var _ Fence = (*Memory)(nil)

// NewMemory makes an empty Memory.
func NewMemory() *Memory { return &Memory{rows: map[string]*memRow{}} }

func (m *Memory) make(name string) *memRow {
	return &memRow{Row: Row{Name: name, Seq: m.seqs}}
}

// Raise is Fence's.
func (m *Memory) Raise(ctx context.Context, name string, g Grant) (Claim, error) {
	if err := checkRequest(ctx, name, g); err != nil {
		return Claim{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[name]
	if r == nil {
		if err := CheckFloor(name, m.floor, g); err != nil {
			return Claim{}, err
		}
		r = m.make(name)
	}
	repeated, err := r.CheckRaise(g)
	if err != nil {
		return Claim{}, err
	}
	if !repeated {
		r.previous = r.Row
		r.Fence, r.Nonce, r.Owner = g.Token, g.Nonce, g.Token
	}
	now := time.Now()
	if !repeated || r.State != Running {
		r.Since = now
	}
	r.State, r.touched = Running, now
	m.rows[name] = r
	return Claim{Name: name, Grant: g, Previous: r.previous, Seq: NewSequence(r.Seq)}, nil
}

// Do runs write in one atomic step with the check: it is run only if the
// claim's grant is the fence, and no other call of m comes in between. write
// must not call m. Its error is returned as it is, and nothing is counted;
// undoing what it did until then is up to write.
func (m *Memory) Do(ctx context.Context, c Claim, write func() error) error {
	seq := c.Seq
	if seq == nil {
		seq = &Sequence{}
	}
	if err := seq.Lock(ctx); err != nil {
		return err
	}
	defer seq.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.admit(ctx, c)
	if err != nil {
		return err
	}
	if n, known := seq.Count(); known && n != r.Seq {
		return fmt.Errorf("fence %q: %w: the row counts %d transactions, this claim %d. Nothing was written", c.Name, ErrSequence, r.Seq, n)
	}
	if err := write(); err != nil {
		seq.Settle(false, r.Seq)
		return err
	}
	r.Seq++
	seq.Settle(true, r.Seq)
	return nil
}

func (m *Memory) admit(ctx context.Context, c Claim) (*memRow, error) {
	if err := checkRequest(ctx, c.Name, c.Grant); err != nil {
		return nil, err
	}
	r := m.rows[c.Name]
	if r == nil {
		return nil, fmt.Errorf("fence %q: %w: nobody raised it here, or it was pruned. Nothing was written", c.Name, ErrNoFence)
	}
	return r, r.CheckWrite(c.Grant)
}

// Check is Fence's.
func (m *Memory) Check(ctx context.Context, c Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.admit(ctx, c)
	return err
}

// Finish is Fence's.
func (m *Memory) Finish(ctx context.Context, c Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.admit(ctx, c)
	if err != nil {
		return err
	}
	r.State, r.touched = Done, time.Now()
	return nil
}

// Claims is Fence's, in the order of the names. The loop's body may call m.
func (m *Memory) Claims(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(Row{}, context.Cause(ctx))
			return
		}
		for _, r := range m.running() {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (m *Memory) running() []Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Row
	for _, r := range m.rows {
		if r.State == Running {
			all = append(all, r.Row)
		}
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Requeue is Fence's.
func (m *Memory) Requeue(ctx context.Context, seen Row) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[seen.Name]
	if r == nil || r.State != Running || r.Fence != seen.Fence || r.Nonce != seen.Nonce || r.Owner != seen.Owner {
		return fmt.Errorf("fence %q: %w. Nothing was changed; look again", seen.Name, ErrChanged)
	}
	r.State, r.touched = Queued, time.Now()
	return nil
}

func checkRequest(ctx context.Context, name string, g Grant) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := CheckName(name); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	return g.Validate()
}
