package billing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/fence"
)

// request bounds one request to the store in time, and keeps the stage from
// freezing the process in the middle of it. done ends it.
func (w *Worker) request(ctx context.Context) (_ context.Context, done func()) {
	w.stage.store.RLock()
	ctx, cancel := context.WithTimeout(ctx, w.Limit)
	return ctx, func() {
		cancel()
		w.stage.store.RUnlock()
	}
}

func (w *Worker) raise(ctx context.Context, g fence.Grant) (fence.Claim, error) {
	w.stage.at(Event{Step: BeforeRaise})
	rctx, done := w.request(ctx)
	claim, err := w.Fence.Raise(rctx, JobName, g)
	done()
	w.stage.at(failure(Event{Step: AfterRaise, Fence: g.Token, Note: previously(claim.Previous)}, err))
	return claim, err
}

// previously says what a new holder finds.
func previously(r fence.Row) string {
	switch r.State {
	case fence.Running:
		return fmt.Sprintf(", finds it RUNNING by %d", r.Owner)
	case fence.Done:
		return ", finds it DONE"
	}
	return ""
}

func (w *Worker) progress(ctx context.Context) (done, chunks int, err error) {
	w.stage.at(Event{Step: BeforeRead})
	rctx, end := w.request(ctx)
	done, chunks, err = w.Store.Progress(rctx)
	end()
	note := fmt.Sprintf("reads how far the job has come: %d of %d chunks", done, chunks)
	w.stage.at(failure(Event{Step: AfterRead, Chunk: done, Note: note}, err))
	return done, chunks, err
}

// build makes a chunk's charges in memory, and takes its time as real work does.
func (w *Worker) build(ctx context.Context, chunk int) ([]Charge, error) {
	rctx, done := w.request(ctx)
	charges, err := w.Store.Build(rctx, chunk)
	done()
	if err != nil {
		return nil, err
	}
	sleep(ctx, w.Pace) // cut short when the lease ends; the check before the write says so
	w.stage.at(Event{Step: Built, Chunk: chunk})
	return charges, nil
}

func (w *Worker) finish(ctx context.Context, claim fence.Claim) error {
	w.stage.at(Event{Step: BeforeFinish})
	rctx, done := w.request(ctx)
	err := w.Fence.Finish(rctx, claim)
	done()
	note := ""
	if claim.Previous.State == fence.Done {
		note = " again: its raise had made it RUNNING"
	}
	w.stage.at(failure(Event{Step: AfterFinish, Note: note}, err))
	return err
}

// failure adds to e what err means, if anything.
func failure(e Event, err error) Event {
	if err == nil {
		return e
	}
	e.Err, e.Kind = err.Error(), KindOther
	var stale *fence.StaleError
	var lost *stint.LostError
	switch {
	case errors.As(err, &stale):
		e.Kind, e.Token, e.Fence = KindStale, stale.Presented, stale.Fence
	case refused(err):
		e.Kind = KindStale
	case errors.As(err, &lost):
		e.Kind = KindLost
	}
	return e
}

// plain is the unfenced variant's transaction: the same write, and nobody asks
// whether its sender still holds the lease.
func plain(db *sql.DB) InTx {
	return func(ctx context.Context, _ fence.Claim, o *sql.TxOptions, fn func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, o)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// sleep waits for d, or until ctx is done: then it is false.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
