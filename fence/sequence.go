package fence

import (
	"context"
	"fmt"
	"sync"
)

// Sequence is the holder's own count of the transactions that it committed
// under one claim, and what it knows of the last one. It belongs to the fence
// implementation that made the claim; holders only carry it, and share it by
// copying the claim.
//
// Its methods are for implementations. Lock comes first and Unlock last; all
// others are called in between.
type Sequence struct {
	once sync.Once
	turn chan struct{}

	count   int64
	known   bool
	lost    string
	applied bool
	spoiled error
}

// NewSequence starts at count, the row's Seq when the claim was raised.
func NewSequence(count int64) *Sequence { return &Sequence{count: count, known: true} }

// Resume makes a claim from a name and a grant that another process raised and
// handed over (in STINT_GRANT, say). Its first transaction reads the row's Seq
// under the lock; from then on this claim is the grant's only writer, as a
// claim from Raise is.
func Resume(name string, g Grant) (Claim, error) {
	if err := CheckName(name); err != nil {
		return Claim{}, err
	}
	if err := g.Validate(); err != nil {
		return Claim{}, err
	}
	return Claim{Name: name, Grant: g, Seq: &Sequence{}}, nil
}

func (s *Sequence) gate() chan struct{} {
	s.once.Do(func() { s.turn = make(chan struct{}, 1) })
	return s.turn
}

// Lock waits for the claim's transaction in progress, until ctx is done.
func (s *Sequence) Lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case s.gate() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fence: another transaction of this claim is still running: %w", context.Cause(ctx))
	}
}

// Unlock lets the next transaction of the claim go on.
func (s *Sequence) Unlock() { <-s.gate() }

// Count is how many transactions were committed through the fence up to now;
// known is false before the first transaction of a resumed claim.
func (s *Sequence) Count() (count int64, known bool) { return s.count, s.known }

// Lose notes that the answer to the COMMIT of the transaction with this mark
// was lost: it may have been applied or not. before is the count before it.
func (s *Sequence) Lose(mark string, before int64) {
	s.lost, s.count, s.known, s.applied = mark, before, true, false
}

// Lost is the mark of the transaction whose answer was lost and that was not
// settled yet; empty when there is none.
func (s *Sequence) Lost() string { return s.lost }

// Settle notes how the last transaction ended, and the count after it.
func (s *Sequence) Settle(applied bool, count int64) {
	s.lost, s.count, s.known, s.applied = "", count, true, applied
}

// Applied tells how the last transaction ended.
func (s *Sequence) Applied() bool { return s.applied }

// Spoil ends the claim as a writer: what its transactions wrote is no longer
// what was counted, and why says so. The holder raises again, and reads how far
// the work came, before it goes on.
func (s *Sequence) Spoil(why error) { s.lost, s.spoiled = "", why }

// Spoiled is what Spoil noted, or nil.
func (s *Sequence) Spoiled() error { return s.spoiled }
