package actor

import (
	"errors"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// Table is the row store on a machine of its own. What happens at it is logged
// when it happens, under the name of who asked.
type Table struct {
	stage *Stage
	m     *world.Machine
	*store.Table
	rows int // of a chunk
	open map[string]*tx
	// ended are the marks of transactions that were open, with whether they were
	// committed; looked up only.
	ended map[string]bool

	// Locking is set before the run.
	Locking Locking
	// Blocked is for how long raises have waited for a locked row, in all.
	Blocked time.Duration
}

// NewTable puts a table on a machine.
func NewTable(s *Stage, m *world.Machine, t *store.Table, rows int) *Table {
	return &Table{stage: s, m: m, Table: t, rows: rows, open: map[string]*tx{}, ended: map[string]bool{}}
}

// Machine is where the table lies.
func (t *Table) Machine() *world.Machine { return t.m }

func progress(j store.Job) Progress {
	return Progress{State: j.State, Owner: j.Owner, Fence: j.Fence, Seq: j.Seq, Next: j.Next()}
}

// at does f at the store, and the reply that it returns at the asker.
func (t *Table) at(from *world.Machine, f func() (reply func())) {
	t.stage.World.Net.Call(from, t.m, func(answer func(func())) { answer(f()) })
}

// log notes what the store did for a machine.
func (t *Table) log(from *world.Machine, what, name string, g fence.Grant, err error, e world.Event) {
	j := t.Table.Read(name)
	e.What, e.Name, e.Token, e.Fence, e.State = what, name, uint64(g.Token), uint64(j.Fence), string(j.State)
	if err != nil {
		e.What, e.Mark, e.Why = what+"-refused", "refused", why(err, g, j)
	}
	t.stage.log(from, e)
}

func why(err error, g fence.Grant, j store.Job) string {
	switch {
	case errors.Is(err, fence.ErrWeak):
		return "weak-" + uint64String(g.Token) + ": " + fence.ErrWeak.Error()
	case errors.Is(err, fence.ErrStale) && g.Token < j.Fence:
		return uint64String(g.Token) + " < " + uint64String(j.Fence)
	case errors.Is(err, fence.ErrStale):
		return "equal is refused: " + uint64String(g.Token) + " = " + uint64String(j.Fence)
	case errors.Is(err, fence.ErrRepeated):
		return "token " + uint64String(g.Token) + " was admitted for another grant"
	case errors.Is(err, fence.ErrCommitted):
		return "this very transaction was committed before"
	case errors.Is(err, fence.ErrSequence):
		return "another transaction was committed under this grant"
	case errors.Is(err, fence.ErrNotRaised):
		return "the fence was not raised"
	case errors.Is(err, fence.ErrChanged):
		return "the row is not as it was seen"
	}
	return err.Error()
}

// Read is Resource's.
func (t *Table) Read(from *world.Machine, name string, reply func(Progress)) {
	t.at(from, func() func() {
		p := progress(t.Table.Read(name))
		return func() { reply(p) }
	})
}

// Raise is Resource's. Where another one's transaction has locked the row, it
// waits.
func (t *Table) Raise(from *world.Machine, name string, g fence.Grant, reply func(Progress, error)) {
	t.stage.World.Net.Call(from, t.m, func(answer func(func())) {
		back := func(p Progress, err error) { answer(func() { reply(p, err) }) }
		if open := t.open[name]; open != nil {
			t.raiseLocked(from, name, g, open, back)
			return
		}
		back(t.raise(from, name, g))
	})
}

func (t *Table) raise(from *world.Machine, name string, g fence.Grant) (Progress, error) {
	if t.stage.Weak {
		if err := refuseWeak(g); err != nil {
			t.log(from, "raised", name, g, err, world.Event{})
			return Progress{}, err
		}
	}
	before, err := t.Table.Raise(t.stage.World.Now(), name, g)
	e := world.Event{}
	if err == nil && before.State == fence.Running && before.Owner != g.Token {
		e.Why = "it was RUNNING by " + uint64String(before.Owner)
	}
	t.log(from, "raised", name, g, err, e)
	return progress(before), err
}

// refuseWeak reads the grant as it travels from an authority that may forget:
// its string says so, and the fence does not take it.
func refuseWeak(g fence.Grant) error {
	_, err := fence.ParseGrant(fence.Weak(g).String())
	return err
}

// Mark is Resource's.
func (t *Table) Mark(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	t.at(from, func() func() {
		err := t.Table.Mark(t.stage.World.Now(), name, g)
		t.log(from, "marked", name, g, err, world.Event{})
		return func() { reply(err) }
	})
}

// Write is Resource's.
func (t *Table) Write(from *world.Machine, w Write, reply func(Progress, error)) {
	t.at(from, func() func() {
		p, err := t.write(from, w)
		return func() { reply(p, err) }
	})
}

func (t *Table) write(from *world.Machine, w Write) (Progress, error) {
	j, err := t.Table.Write(w.Name, store.Write{Grant: w.Grant, Seq: w.Seq, Mark: w.Mark, Chunk: w.Chunk})
	e := world.Event{Chunk: w.Chunk}
	switch {
	case errors.Is(err, fence.ErrCommitted):
		t.log(from, "settled", w.Name, w.Grant, nil, world.Event{Chunk: w.Chunk, Why: "the lost commit had been carried out; nothing is done twice"})
	case err == nil:
		e.Rows = t.rows
		if n := j.Chunks[w.Chunk-1]; n > 1 {
			e.Count, e.Mark, e.Why = n, "twice", "charged again"
		}
		t.log(from, "write", w.Name, w.Grant, nil, e)
	default:
		t.log(from, "write", w.Name, w.Grant, err, e)
	}
	return progress(j), err
}

// Finish is Resource's.
func (t *Table) Finish(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	t.at(from, func() func() {
		err := t.Table.Finish(name, g)
		t.log(from, "done", name, g, err, world.Event{})
		return func() { reply(err) }
	})
}
