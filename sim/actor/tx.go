package actor

import (
	"errors"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/world"
)

// Transactor is a resource on which a transaction stays open while its client
// does something else.
type Transactor interface {
	// Begin locks the row and checks the grant. idle is how long the server lets
	// the transaction stand still before it ends it; zero: for ever.
	Begin(from *world.Machine, w Write, idle time.Duration, reply func(error))
	// Commit carries out the write, if its transaction is still open.
	Commit(from *world.Machine, w Write, reply func(Progress, error))
}

// errServerEnded: the transaction is not open any more, and nothing of it is kept.
var errServerEnded = errors.New("the server has ended its transaction")

// Locking is what a table does about transactions that stay open.
type Locking struct {
	IdleLimit  bool // a transaction that stands still is ended at its holder's stop time
	ReadBefore bool // the raise reads the row before it waits for the lock
	Loose      bool // nothing is locked: a write is checked when it begins, and its effect comes later
}

// tx is the open transaction on a row. Who comes meanwhile waits for its end.
type tx struct {
	mark    string
	who     *world.Machine
	limit   *world.Alarm
	waiting []func()
	raises  map[fence.Grant]bool // that wait
}

// unlocked does f when the row is not locked.
func (t *Table) unlocked(name string, f func()) {
	if open := t.open[name]; open != nil {
		open.waiting = append(open.waiting, f)
		return
	}
	f()
}

// end ends a transaction: who waits is let in, one after the other.
func (t *Table) end(name string, open *tx, committed bool) {
	if t.open[name] != open {
		return
	}
	open.limit.Stop()
	delete(t.open, name)
	t.ended[open.mark] = committed
	for _, f := range open.waiting {
		t.unlocked(name, f)
	}
}

// Begin is Transactor's.
func (t *Table) Begin(from *world.Machine, w Write, idle time.Duration, reply func(error)) {
	t.stage.World.Net.Call(from, t.m, func(answer func(func())) {
		open := t.open[w.Name]
		if _, over := t.ended[w.Mark]; over || open != nil && open.mark == w.Mark {
			return // a copy of the request: its connection has a transaction already
		}
		t.unlocked(w.Name, func() {
			err := t.Table.Check(w.Name, w.Grant)
			what := "tx-begins"
			if t.Locking.Loose {
				what = "admitted"
			}
			t.log(from, what, w.Name, w.Grant, err, world.Event{Chunk: w.Chunk})
			if err == nil && !t.Locking.Loose {
				open := &tx{mark: w.Mark, who: from, raises: map[fence.Grant]bool{}}
				t.open[w.Name] = open
				t.limit(w, open, idle)
				from.OnCrash(func() { t.end(w.Name, open, false) }) // its connection breaks
			}
			answer(func() { reply(err) })
		})
	})
}

func (t *Table) limit(w Write, open *tx, idle time.Duration) {
	if idle <= 0 || !t.Locking.IdleLimit {
		return
	}
	open.limit = t.m.Mono.After(idle, func() {
		t.stage.log(t.m, world.Event{What: "tx-ended", Name: w.Name, Token: uint64(w.Grant.Token), Chunk: w.Chunk, Peer: open.who.Name, Why: "it stood still up to its holder's stop time"})
		t.end(w.Name, open, false)
	})
}

// Commit is Transactor's.
func (t *Table) Commit(from *world.Machine, w Write, reply func(Progress, error)) {
	t.stage.World.Net.Call(from, t.m, func(answer func(func())) {
		if t.ended[w.Mark] {
			return // a copy of the request
		}
		open := t.open[w.Name]
		if t.Locking.Loose {
			p := t.land(from, w)
			answer(func() { reply(p, nil) })
			return
		}
		if open == nil || open.mark != w.Mark {
			j := t.Table.Read(w.Name)
			t.stage.log(from, world.Event{
				What: "write-refused", Name: w.Name, Token: uint64(w.Grant.Token), Fence: uint64(j.Fence), Chunk: w.Chunk,
				State: string(j.State), Mark: "refused", Why: errServerEnded.Error(),
			})
			answer(func() { reply(progress(j), errServerEnded) })
			return
		}
		p, err := t.write(from, w)
		t.end(w.Name, open, err == nil)
		answer(func() { reply(p, err) })
	})
}

// land is an effect that was admitted before, and is not checked again.
func (t *Table) land(from *world.Machine, w Write) Progress {
	j := t.Table.Land(w.Name, w.Chunk)
	e := world.Event{Chunk: w.Chunk, Rows: t.rows}
	if n := j.Chunks[w.Chunk-1]; n > 1 {
		e.Count, e.Mark, e.Why = n, "twice", "charged again"
	}
	t.log(from, "write", w.Name, w.Grant, nil, e)
	return progress(j)
}

// raiseLocked is a raise on a row that another one's transaction has locked.
func (t *Table) raiseLocked(from *world.Machine, name string, g fence.Grant, open *tx, back func(Progress, error)) {
	if open.raises[g] { // the same one asks again: its connection waits already
		return
	}
	open.raises[g] = true
	seen, since := t.Table.Read(name), t.stage.World.Now()
	t.stage.log(from, world.Event{What: "raise-waits", Name: name, Token: uint64(g.Token), Fence: uint64(seen.Fence), Peer: open.who.Name, Why: "it has locked the row"})
	t.unlocked(name, func() {
		t.Blocked += t.stage.World.Now() - since
		p, err := t.raise(from, name, g)
		if t.Locking.ReadBefore && err == nil {
			p.Next = seen.Next() // what its SELECT had returned before it waited
		}
		back(p, err)
	})
}

// writeInTx opens a transaction, does its work inside it, and commits.
func (w *Worker) writeInTx(t Transactor, write Write) {
	refused := func(err error) { w.written(write.Chunk, Progress{}, err) }
	turn := w.turn
	mine := func(f func()) {
		if w.turn == turn && !w.gone {
			f()
		}
	}
	t.Begin(w.m, write, w.holder.Stop().Sub(w.holder.clock.Now()), func(err error) {
		mine(func() {
			if err != nil {
				refused(err)
				return
			}
			w.after(w.cfg.InTx, func() {
				t.Commit(w.m, write, func(p Progress, err error) {
					mine(func() { w.written(write.Chunk, p, err) })
				})
			})
		})
	})
}
