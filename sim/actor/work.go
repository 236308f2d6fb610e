package actor

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// granted is the beginning of the work: raise the fence, and only then read.
func (w *Worker) granted(g authority.Grant) {
	w.grant = g.Grant
	if w.stage.Store == nil { // it only holds
		return
	}
	if !w.stage.Without.Has(protocol.RuleRaiseFirst) {
		w.after(w.cfg.RaiseAfter, w.raise)
		return
	}
	w.after(w.cfg.RaiseAfter, func() {
		w.ask("read", func(answered func(func())) {
			w.stage.Store.Read(w.m, w.cfg.Job, func(p Progress) {
				answered(func() {
					w.next = p.Next
					w.stage.log(w.m, world.Event{What: "read", Name: w.cfg.Job, Chunk: p.Next, Fence: uint64(p.Fence), Why: "before it raised the fence"})
					w.after(w.cfg.RaiseLate, w.raise)
				})
			})
		})
	})
}

// raise is the first act of a holder.
func (w *Worker) raise() {
	w.ask("raise", func(answered func(func())) {
		w.stage.Store.Raise(w.m, w.cfg.Job, w.grant, func(p Progress, err error) {
			answered(func() { w.raised(p, err) })
		})
	})
}

func (w *Worker) raised(p Progress, err error) {
	if err != nil {
		w.letGo("the store refused its raise")
		return
	}
	if !w.stage.Without.Has(protocol.RuleRaiseFirst) {
		w.next = p.Next
	}
	w.seq, w.etag = p.Seq, p.ETag
	if w.stage.Without.Has(protocol.RuleMarkerWithRaise) {
		w.after(w.cfg.MarkAfter, w.mark)
		return
	}
	w.goOn()
}

// mark is the claim's marker as a write of its own.
func (w *Worker) mark() {
	w.ask("mark", func(answered func(func())) {
		w.stage.Store.Mark(w.m, w.cfg.Job, w.grant, func(err error) {
			answered(func() {
				if err != nil {
					w.letGo("the store refused its marker")
					return
				}
				w.goOn()
			})
		})
	})
}

// goOn is called with the fence raised.
func (w *Worker) goOn() {
	if w.next == 0 {
		w.after(w.cfg.Finish, w.finish)
		return
	}
	w.after(w.cfg.First, w.check)
}

// check asks the lease before the next chunk. The answer is true when it is
// given; what becomes of it during a pause is up to the store.
func (w *Worker) check() {
	if !w.CheckNow() {
		w.letGo("its own check says that the lease is over")
		return
	}
	chunk := w.next
	w.after(w.cfg.Build, func() { w.after(w.cfg.Send, func() { w.write(chunk) }) })
}

// CheckNow looks at the clock and the stop time, and logs the outcome.
func (w *Worker) CheckNow() bool {
	if w.holder == nil {
		return false
	}
	inside := w.holder.Holding()
	e := world.Event{What: "check", Name: w.cfg.Job, Token: uint64(w.grant.Token), Stop: w.stage.trueTime(w.holder.clock, w.holder.Stop()), State: "inside"}
	if !inside {
		e.State = "past"
	}
	w.stage.log(w.m, e)
	return inside
}

// write sends a chunk. One whose answer is lost is sent again under the same
// mark, so that the store can tell a repetition from a new transaction.
func (w *Worker) write(chunk int) {
	write := Write{
		Name: w.cfg.Job, Grant: w.grant, Chunk: chunk, Seq: w.seq, ETag: w.etag,
		Mark: fmt.Sprintf("%s/%d", w.grant, chunk),
	}
	if t, ok := w.stage.Store.(Transactor); ok && w.cfg.InTx > 0 {
		w.writeInTx(t, write)
		return
	}
	w.ask("write", func(answered func(func())) {
		w.stage.Store.Write(w.m, write, func(p Progress, err error) {
			answered(func() { w.written(chunk, p, err) })
		})
	})
}

func (w *Worker) written(chunk int, p Progress, err error) {
	if err != nil && !errors.Is(err, fence.ErrCommitted) {
		w.letGo("the store refused its write")
		return
	}
	w.wrote++
	w.seq, w.etag = p.Seq, p.ETag
	// Who has raised the fence is the only one that writes, so the next chunk
	// is the next one; the store's own count is not asked again.
	w.next = chunk + 1
	if p.Next == 0 {
		w.next = 0
	}
	switch {
	case w.cfg.Chunks > 0 && w.wrote >= w.cfg.Chunks:
	case w.next == 0:
		w.after(w.cfg.Finish, w.finish)
	default:
		w.after(w.cfg.Pace, w.check)
	}
}

func (w *Worker) finish() {
	w.ask("finish", func(answered func(func())) {
		w.stage.Store.Finish(w.m, w.cfg.Job, w.grant, func(err error) {
			answered(func() {
				if err != nil {
					w.letGo("the store refused to finish")
					return
				}
				w.done = true
				w.after(w.cfg.Release, func() { w.letGo("the job is done") })
			})
		})
	})
}
