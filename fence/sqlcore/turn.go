package sqlcore

import (
	"context"

	"github.com/stint-dev/stint/fence"
)

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
	seq, kept := e.lost[key]
	e.mu.Unlock()
	if !kept {
		seq = &fence.Sequence{}
	}
	if err := seq.Lock(ctx); err != nil {
		return nil, nil, err
	}
	return seq, func() {
		e.mu.Lock()
		if seq.Lost() != "" || seq.Spoiled() != nil {
			e.lost[key] = seq
		} else if e.lost[key] == seq {
			delete(e.lost, key)
		}
		e.mu.Unlock()
		seq.Unlock()
	}, nil
}
