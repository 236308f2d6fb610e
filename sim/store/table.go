// Package store simulates the resources that keep a fence: a table of rows with
// a fence and a sparse index, a table of items with conditional writes, and a
// bucket of objects with ETags. They are plain data: no clock, no network, no
// randomness. A write is one atomic step, as it is in the real ones.
package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Off switches rules of the store off, to see what they are good for. Its zero
// value keeps every rule.
type Off struct {
	Fence      bool // no check at all: every write lands
	Equal      bool // an equal token is refused too
	Nonce      bool // an equal token is let in, whoever it belongs to
	Sequence   bool // transactions are not counted: a repeated one is carried out again
	Marker     bool // the raise leaves the claim to a later write
	ExactOwner bool // a row is given back whoever owns it by now

	// Unique is no rule of stint's but the database's own: a chunk's invoices
	// have a unique key, and nobody writes them a second time.
	Unique bool
}

// ErrUnique is the database's own refusal.
var ErrUnique = errors.New("duplicate key")

// Job is a row of the table: the fence and the claim, and the work that was
// written through them.
type Job struct {
	fence.Row
	Indexed bool  // in the sparse index of claims
	Chunks  []int // how often each chunk was charged; chunk 1 is Chunks[0]
	// Last is the mark of the last transaction, which settles one whose answer
	// was lost.
	Last string
}

// Next is the first chunk that was not charged yet, from 1; 0 when all were.
func (j Job) Next() int { return slices.Index(j.Chunks, 0) + 1 }

// Charged counts the chunks that were charged at least once.
func (j Job) Charged() (n int) {
	for _, c := range j.Chunks {
		n += min(c, 1)
	}
	return n
}

// Twice counts the charges beyond the first of each chunk.
func (j Job) Twice() (n int) {
	for _, c := range j.Chunks {
		n += max(0, c-1)
	}
	return n
}

func (j Job) clone() Job {
	j.Chunks = slices.Clone(j.Chunks)
	return j
}

// Table is the row store. Jobs are kept in the order of their names, so that
// nothing depends on the order of a map.
type Table struct {
	off    Off
	chunks int
	jobs   []*Job
	floor  fence.Token
	seqs   int64
}

// NewTable makes an empty table whose jobs have that many chunks.
func NewTable(chunks int, off Off) *Table { return &Table{off: off, chunks: chunks} }

func (t *Table) find(name string) (int, bool) {
	return slices.BinarySearchFunc(t.jobs, name, func(j *Job, name string) int { return strings.Compare(j.Name, name) })
}

// Read is a plain read: it protects nothing. A name without a row is a zero Job.
func (t *Table) Read(name string) Job {
	if i, ok := t.find(name); ok {
		return t.jobs[i].clone()
	}
	return Job{Row: fence.Row{Name: name}, Chunks: make([]int, t.chunks)}
}

// Raise admits g: one step that refuses a lower token, moves the fence, marks
// the row as claimed and returns it as it was before.
func (t *Table) Raise(now time.Duration, name string, g fence.Grant) (Job, error) {
	before := t.Read(name)
	i, ok := t.find(name)
	if err := t.checkRaise(before, ok, g); err != nil {
		return before, err
	}
	if !ok {
		before.Seq = t.seqs
		j := before.clone()
		t.jobs = slices.Insert(t.jobs, i, &j)
	}
	j := t.jobs[i]
	j.Fence, j.Nonce = g.Token, g.Nonce
	if !t.off.Marker {
		t.mark(j, now)
	}
	return before, nil
}

func (t *Table) checkRaise(before Job, exists bool, g fence.Grant) error {
	if t.off.Fence {
		return nil
	}
	if !exists {
		return fence.CheckFloor(before.Name, t.floor, g)
	}
	if t.off.Nonce && before.Fence == g.Token {
		return nil
	}
	repeated, err := before.CheckRaise(g)
	if err == nil && repeated && t.off.Equal {
		return refuseEqual(before.Row, g)
	}
	return err
}

func (t *Table) mark(j *Job, now time.Duration) {
	j.State, j.Owner, j.Indexed = fence.Running, j.Fence, true
	j.Since = time.Unix(0, 0).Add(now).UTC()
}

// Mark is the claim as a write of its own, for a store whose Raise leaves it out.
func (t *Table) Mark(now time.Duration, name string, g fence.Grant) error {
	j, err := t.admit(name, g)
	if err == nil {
		t.mark(j, now)
	}
	return err
}

// Write is one transaction of a holder: it charges a chunk.
type Write struct {
	Grant fence.Grant
	Seq   int64  // transactions that the holder knows of
	Mark  string // unique to the transaction
	Chunk int    // from 1
}

// Write charges a chunk in one step with the check. An error that matches
// fence.ErrCommitted says that this very transaction was carried out before.
func (t *Table) Write(name string, w Write) (Job, error) {
	j, err := t.admit(name, w.Grant)
	if err != nil {
		return t.Read(name), err
	}
	if w.Chunk < 1 || w.Chunk > len(j.Chunks) {
		return j.clone(), fmt.Errorf("store: there is no chunk %d in %d", w.Chunk, len(j.Chunks))
	}
	if !t.off.Sequence && !t.off.Fence && w.Seq != j.Seq {
		if j.Last == w.Mark {
			return j.clone(), fmt.Errorf("fence %q: %w", name, fence.ErrCommitted)
		}
		return j.clone(), fmt.Errorf("fence %q: %w: the row counts %d transactions, this claim %d", name, fence.ErrSequence, j.Seq, w.Seq)
	}
	if t.off.Unique && j.Chunks[w.Chunk-1] > 0 {
		return j.clone(), fmt.Errorf("chunk %d: %w", w.Chunk, ErrUnique)
	}
	j.Chunks[w.Chunk-1]++
	j.Seq++
	j.Last = w.Mark
	return j.clone(), nil
}

// Check makes the check of a write, and writes nothing.
func (t *Table) Check(name string, g fence.Grant) error {
	_, err := t.admit(name, g)
	return err
}

// admit is the check that every write makes.
func (t *Table) admit(name string, g fence.Grant) (*Job, error) {
	i, ok := t.find(name)
	if !ok {
		if !t.off.Fence {
			return nil, fmt.Errorf("fence %q: %w", name, fence.ErrNoFence)
		}
		j := t.Read(name)
		t.jobs = slices.Insert(t.jobs, i, &j)
	}
	j := t.jobs[i]
	switch {
	case t.off.Fence, t.off.Nonce && j.Fence == g.Token && !t.off.Equal:
		return j, nil
	case t.off.Equal && j.Fence == g.Token:
		return nil, refuseEqual(j.Row, g)
	}
	return j, j.CheckWrite(g)
}

func refuseEqual(r fence.Row, g fence.Grant) error {
	return fmt.Errorf("fence %q: %w: token %d is not above the fence %d, and equal is refused here", r.Name, fence.ErrStale, g.Token, r.Fence)
}
