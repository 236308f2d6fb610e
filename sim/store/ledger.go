package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Ledger bills jobs in a table of items. The fence of a job is an item, which
// every transaction updates in the place of a bare check: it admits the grant and
// counts the transaction. The claim is an attribute that only claimed jobs have,
// for a sparse index.
type Ledger struct {
	*Items
	off    Off
	chunks int
}

// NewLedger makes an empty ledger whose jobs have that many chunks.
func NewLedger(chunks int, off Off) *Ledger { return &Ledger{NewItems(), off, chunks} }

func fenceKey(name string) string            { return "fence/" + name }
func chunkKey(name string, chunk int) string { return fmt.Sprintf("chunk/%s/%d", name, chunk) }

// Read is a job as its items say.
func (l *Ledger) Read(name string) Job {
	i := l.Get(fenceKey(name))
	j := Job{
		Row: fence.Row{
			Name: name, Fence: fence.Token(i["fence"].N), Nonce: i["nonce"].S, State: fence.State(i["state"].S),
			Owner: fence.Token(i["owner"].N), Seq: i["seq"].N,
		},
		Indexed: i["claimed"].Set, Last: i["last"].S, Chunks: make([]int, l.chunks),
	}
	for n := range j.Chunks {
		j.Chunks[n] = int(l.Get(chunkKey(name, n+1))["charged"].N)
	}
	return j
}

// admits is the condition of every write: the fence is exactly this grant's.
func (l *Ledger) admits(g fence.Grant) Condition {
	same := Equal("fence", N(int64(g.Token)))
	switch {
	case l.off.Fence:
		return nil
	case l.off.Equal:
		return Less("fence", int64(g.Token))
	case l.off.Nonce:
		return same
	}
	return And(same, Equal("nonce", S(g.Nonce)))
}

// refused says what a failed condition was about.
func (l *Ledger) refused(name string, g fence.Grant) error {
	r := l.Read(name).Row
	if err := r.CheckWrite(g); err != nil {
		return err
	}
	return refuseEqual(r, g)
}

func (l *Ledger) claim(name string, g fence.Grant) Item {
	return Item{"state": S(string(fence.Running)), "owner": N(int64(g.Token)), "claimed": S(name)}
}

// Raise admits a grant with one conditional update, and returns the job as it was
// before.
func (l *Ledger) Raise(_ time.Duration, name string, g fence.Grant) (Job, error) {
	before := l.Read(name)
	a := Action{Key: fenceKey(name), Set: Item{"fence": N(int64(g.Token)), "nonce": S(g.Nonce)}, Add: map[string]int64{"seq": 0}}
	if !l.off.Fence {
		a.If = Or(NotExists("fence"), Less("fence", int64(g.Token)), l.admits(g))
	}
	if !l.off.Marker {
		for attr, v := range l.claim(name, g) {
			a.Set[attr] = v
		}
	}
	if _, err := l.Update(a); err != nil {
		if _, err := before.CheckRaise(g); err != nil {
			return before, err
		}
		return before, refuseEqual(before.Row, g)
	}
	return before, nil
}

// Mark is the claim as a write of its own.
func (l *Ledger) Mark(_ time.Duration, name string, g fence.Grant) error {
	return l.set(name, g, Action{Set: l.claim(name, g)})
}

// Finish sets DONE and takes the job out of the index. The fence stays.
func (l *Ledger) Finish(name string, g fence.Grant) error {
	return l.set(name, g, Action{Set: Item{"state": S(string(fence.Done))}, Remove: []string{"claimed"}})
}

func (l *Ledger) set(name string, g fence.Grant, a Action) error {
	a.Key, a.If = fenceKey(name), l.admits(g)
	if _, err := l.Update(a); err != nil {
		return l.refused(name, g)
	}
	return nil
}

// Write charges a chunk and counts the transaction, in one transaction of two
// actions. The request's token is the mark, so that a repetition within the time
// that the service remembers it is carried out once; what comes later goes by the
// count.
func (l *Ledger) Write(name string, w Write) (Job, error) {
	before := l.Read(name)
	admit := Action{Key: fenceKey(name), If: l.admits(w.Grant), Add: map[string]int64{"seq": 1}, Set: Item{"last": S(w.Mark)}}
	request := w.Mark
	if l.off.Sequence || l.off.Fence {
		request = ""
	} else {
		admit.If = And(admit.If, Equal("seq", N(w.Seq)))
	}
	err := l.Transact(request, []Action{admit, {Key: chunkKey(name, w.Chunk), Add: map[string]int64{"charged": 1}}})
	after := l.Read(name)
	switch {
	case errors.Is(err, ErrLimit):
		return after, err
	case err == nil && after.Seq != before.Seq:
		return after, nil
	case err == nil || before.Last == w.Mark && before.CheckWrite(w.Grant) == nil:
		return after, fmt.Errorf("fence %q: %w", name, fence.ErrCommitted)
	case before.CheckWrite(w.Grant) != nil || l.off.Equal:
		return after, l.refused(name, w.Grant)
	}
	return after, fmt.Errorf("fence %q: %w: the item counts %d transactions, this claim %d", name, fence.ErrSequence, before.Seq, w.Seq)
}
