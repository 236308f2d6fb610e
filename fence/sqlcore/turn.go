package sqlcore

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// turn orders the transactions of a claim that came without a Seq. Such a claim
// counts nothing, but its transactions go one at a time all the same: two at
// once could both lose the answer to their COMMIT, and only one mark is kept in
// the row.
type turn struct {
	gate  fence.Sequence  // only its lock
	users int             // who have it or wait for it
	seq   *fence.Sequence // of the one who has it; and what stands open after that
}

// enter begins what counts on the claim's last transaction: it takes the claim's
// turn, and refuses what would wait for itself, and a claim that must be raised
// again. done ends the turn.
func (e *Engine) enter(ctx context.Context, c fence.Claim, what string) (seq *fence.Sequence, done func(), err error) {
	if err := checkClaim(c); err != nil {
		return nil, nil, err
	}
	if err := e.notInside(); err != nil {
		return nil, nil, fmt.Errorf("fence %q: %s: %w", c.Name, what, err)
	}
	if seq, done, err = e.sequence(ctx, c); err != nil {
		return nil, nil, err
	}
	if err := seq.Spoiled(); err != nil {
		done()
		return nil, nil, err
	}
	return seq, done, nil
}

// sequence takes the claim's turn. A claim that came without a Seq has none of
// its own; what is kept for it is only what stands open: a transaction
// that was not settled, or a claim that must be raised again.
func (e *Engine) sequence(ctx context.Context, c fence.Claim) (seq *fence.Sequence, done func(), err error) {
	if c.Seq != nil {
		if err := c.Seq.Lock(ctx); err != nil {
			return nil, nil, err
		}
		return c.Seq, c.Seq.Unlock, nil
	}
	key := handed{c.Name, c.Grant}
	e.mu.Lock()
	t := e.turns[key]
	if t == nil {
		t = &turn{seq: &fence.Sequence{}}
		e.turns[key] = t
	}
	t.users++
	e.mu.Unlock()
	if err := t.gate.Lock(ctx); err != nil {
		e.leave(key, t)
		return nil, nil, err
	}
	if !t.open() {
		t.seq = &fence.Sequence{} // others may have written since
	}
	return t.seq, func() {
		e.leave(key, t)
		t.gate.Unlock()
	}, nil
}

func (t *turn) open() bool { return t.seq.Lost() != "" || t.seq.Spoiled() != nil }

// leave forgets the turn when nobody else has to do with it and nothing stands
// open.
func (e *Engine) leave(key handed, t *turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.users--; t.users == 0 && !t.open() {
		delete(e.turns, key)
	}
}
