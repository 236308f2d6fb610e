package billing

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/fence"
)

// Worker bills the job's invoices, as one of several that contend for it.
type Worker struct {
	Client *stint.Client
	Fence  fence.Fence
	InTx   InTx
	Store  *Store
	Who    string
	Pace   time.Duration // how long building a chunk takes
	Limit  time.Duration // how long one request to the store may take
	stage  *stage        // told every step; for the demo and its tests
}

// InTx runs fn in one transaction with the check of the fence: the method of
// sqlfence.Fence. The unfenced variant of the demo puts a plain transaction here.
type InTx func(ctx context.Context, c fence.Claim, o *sql.TxOptions, fn func(*sql.Tx) error) error

// Run bills until the job is done. An attempt that failed is made again, by a
// new holder that knows nothing; only a worker that the fence has turned away
// ends for good.
func (w *Worker) Run(ctx context.Context) error {
	for {
		err := w.attempt(ctx)
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
		w.stage.at(failure(Event{Step: Retry}, err))
		if !sleep(ctx, w.Limit/10) {
			return ctx.Err()
		}
	}
}

// attempt does what is left of the job under one lease.
func (w *Worker) attempt(ctx context.Context) error {
	return w.Client.Do(ctx, JobName, func(leased context.Context, lease *stint.Lease) error {
		w.stage.at(Event{Step: AfterAcquire, Token: lease.Token()})
		// The first act, before any read: from here on nothing that an earlier
		// holder sends is let in, so what is read next stays true.
		claim, err := w.raise(leased, lease.Grant())
		if err != nil {
			return err
		}
		done, chunks, err := w.progress(leased)
		if err != nil {
			return err
		}
		for chunk := done + 1; chunk <= chunks; chunk++ {
			charges, err := w.build(leased, chunk)
			if err != nil {
				return err
			}
			if err := w.send(ctx, lease, claim, chunk, charges); err != nil {
				return err
			}
		}
		return w.finish(leased, claim)
	})
}

// send writes a chunk exactly once, or returns why this holder has to stop.
func (w *Worker) send(ctx context.Context, lease *stint.Lease, claim fence.Claim, chunk int, charges []Charge) error {
	for {
		// The holder stops by its own clock. That keeps late writes rare, and no
		// check can do more: the process may be frozen on the very next line.
		if err := lease.Err(); err != nil {
			return err
		}
		w.stage.at(Event{Step: Checked, Chunk: chunk})
		err := w.write(ctx, claim, chunk, charges)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fence.ErrCommitted): // the try before this one, whose answer was lost
			return nil
		case refused(err):
			return err
		}
		// Surely not written, or unknown. Either is repeated under the same claim:
		// it remembers the unknown one, and settles it before it writes again.
		w.stage.at(failure(Event{Step: Retry, Chunk: chunk}, err))
		if !sleep(lease.Context(), w.Limit/10) {
			return lease.Err()
		}
	}
}

// write sends the charges together with the mark that their chunk is done. It
// goes out under ctx and not under the lease's context: whether a write that
// has left comes too late is for the fence to say.
func (w *Worker) write(ctx context.Context, claim fence.Claim, chunk int, charges []Charge) error {
	ctx, done := w.request(ctx)
	err := w.InTx(ctx, claim, nil, func(tx *sql.Tx) error {
		w.stage.at(Event{Step: Admitted, Chunk: chunk})
		half := func() { w.stage.at(Event{Step: HalfSent, Chunk: chunk}) }
		if err := w.Store.Bill(ctx, tx, w.Who, claim.Grant.Token, chunk, charges, half); err != nil {
			return err
		}
		w.stage.at(Event{Step: BeforeCommit, Chunk: chunk})
		return nil
	})
	done()
	w.stage.at(failure(Event{Step: AfterCommit, Chunk: chunk, Rows: len(charges)}, err))
	return err
}

// refused tells that the fence has turned this holder away: another has gone on
// in its place, or its token cannot be ordered. What is in memory is worthless.
func refused(err error) bool {
	return errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrRepeated) || errors.Is(err, fence.ErrSequence)
}
