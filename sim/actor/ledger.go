package actor

import (
	"errors"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// Ledger is a table of items on a machine, whose fence is an item in each
// transaction.
type Ledger struct {
	stage *Stage
	m     *world.Machine
	*store.Ledger
	rows int // of a chunk
}

// NewLedger puts a ledger on a machine.
func NewLedger(s *Stage, m *world.Machine, l *store.Ledger, rows int) *Ledger {
	return &Ledger{stage: s, m: m, Ledger: l, rows: rows}
}

// at does f at the ledger, logs it, and does the reply at the asker. Every copy of
// a request that the network delivers has an answer of its own.
func (l *Ledger) at(from *world.Machine, what, name string, g fence.Grant, f func(*world.Event) (store.Job, error), reply func(Progress, error)) {
	l.stage.World.Net.Call(from, l.m, func(answer func(func())) {
		e := world.Event{What: what, Name: name, Token: uint64(g.Token)}
		j, err := f(&e)
		p := progress(j)
		j = l.Ledger.Read(name)
		e.Fence, e.State = uint64(j.Fence), string(j.State)
		switch {
		case errors.Is(err, fence.ErrCommitted):
			e.What, e.Why = "settled", "the lost commit had been carried out; nothing is done twice"
		case err != nil:
			e.What, e.Mark, e.Why = what+"-refused", "refused", why(err, g, j)
		}
		l.stage.log(from, e)
		answer(func() { reply(p, err) })
	})
}

// Read is Resource's.
func (l *Ledger) Read(from *world.Machine, name string, reply func(Progress)) {
	l.stage.World.Net.Call(from, l.m, func(answer func(func())) {
		p := progress(l.Ledger.Read(name))
		answer(func() { reply(p) })
	})
}

// Raise is Resource's.
func (l *Ledger) Raise(from *world.Machine, name string, g fence.Grant, reply func(Progress, error)) {
	l.at(from, "raised", name, g, func(*world.Event) (store.Job, error) {
		return l.Ledger.Raise(l.stage.World.Now(), name, g)
	}, reply)
}

// Mark is Resource's.
func (l *Ledger) Mark(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	l.at(from, "marked", name, g, func(*world.Event) (store.Job, error) {
		return store.Job{}, l.Ledger.Mark(l.stage.World.Now(), name, g)
	}, func(_ Progress, err error) { reply(err) })
}

// Write is Resource's.
func (l *Ledger) Write(from *world.Machine, w Write, reply func(Progress, error)) {
	l.at(from, "write", w.Name, w.Grant, func(e *world.Event) (store.Job, error) {
		j, err := l.Ledger.Write(w.Name, store.Write{Grant: w.Grant, Seq: w.Seq, Mark: w.Mark, Chunk: w.Chunk})
		e.Chunk = w.Chunk
		if err == nil {
			e.Rows = l.rows
			if n := j.Chunks[w.Chunk-1]; n > 1 {
				e.Count, e.Mark, e.Why = n, "twice", "charged again"
			}
		}
		return j, err
	}, reply)
}

// Finish is Resource's.
func (l *Ledger) Finish(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	l.at(from, "done", name, g, func(*world.Event) (store.Job, error) {
		return store.Job{}, l.Ledger.Finish(name, g)
	}, func(_ Progress, err error) { reply(err) })
}
