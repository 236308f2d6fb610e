package sqlfence

import (
	"context"

	"github.com/stint-dev/stint/fence"
)

// sequence takes the claim's turn. A claim that came without a Seq has none of
// its own; what is kept for it is only what stands open: a transaction
// that was not settled, or a claim that must be raised again.
func (f *Fence) sequence(ctx context.Context, c fence.Claim) (seq *fence.Sequence, done func(), err error) {
	if c.Seq != nil {
		if err := c.Seq.Lock(ctx); err != nil {
			return nil, nil, err
		}
		return c.Seq, c.Seq.Unlock, nil
	}
	key := handed{c.Name, c.Grant}
	f.mu.Lock()
	seq, kept := f.lost[key]
	f.mu.Unlock()
	if !kept {
		seq = &fence.Sequence{}
	}
	if err := seq.Lock(ctx); err != nil {
		return nil, nil, err
	}
	return seq, func() {
		f.mu.Lock()
		if seq.Lost() != "" || seq.Spoiled() != nil {
			f.lost[key] = seq
		} else if f.lost[key] == seq {
			delete(f.lost, key)
		}
		f.mu.Unlock()
		seq.Unlock()
	}, nil
}
