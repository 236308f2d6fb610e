package sqlitelease

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/authority"
)

// job is one request that writes.
type job struct {
	ctx  context.Context
	soft bool // may be lost at a power failure: it is about waiters only
	// run does the work inside the write transaction. An error is the
	// database's, and undoes everything; a refusal is a result of the job.
	run func(c *conn, now authority.Instant) error
	// then runs after the commit, before the caller is told.
	then func()

	state   atomic.Int32
	blocked atomic.Int64 // since when the write lock was waited for, for this job too
	done    chan struct{}
	err     error
}

const (
	queued int32 = iota
	running
	abandoned // its caller has gone: it is not done any more
)

// writer has the one connection for writing. It does all requests that wait
// for it in one transaction: one fsync for many renewals.
type writer struct {
	conn    *conn
	jobs    chan *job
	quit    chan struct{}
	ended   chan struct{} // closed when nothing is written any more
	blocked atomic.Int64  // since when, in Unix nanoseconds, the write lock is waited for
	full    bool          // PRAGMA synchronous
	wg      sync.WaitGroup
}

// batch bounds how long one transaction takes.
const batch = 64

func (w *writer) start(a *Authority) {
	w.jobs, w.full = make(chan *job, batch), true
	w.quit, w.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.ended)
		for {
			select {
			case j := <-w.jobs:
				a.write(w.gather(j))
			case <-w.quit:
				return
			}
		}
	}()
}

// stop ends the goroutine; no call is in flight any more.
func (w *writer) stop() {
	close(w.quit)
	<-w.ended
	w.wg.Wait()
}

func (w *writer) gather(first *job) []*job {
	all := []*job{first}
	for len(all) < batch {
		select {
		case j := <-w.jobs:
			all = append(all, j)
		default:
			return all
		}
	}
	return all
}

// submit has j done and returns its error. A caller whose context ends before
// the transaction began gets an error, and the job is surely not done; later it
// may have been.
func (a *Authority) submit(ctx context.Context, j *job) error {
	j.ctx, j.done = ctx, make(chan struct{})
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlitelease: nothing was done: %w", err)
	}
	select {
	case a.writer.jobs <- j:
	case <-ctx.Done():
		return a.notReached(ctx, j)
	case <-a.writer.ended:
		return fmt.Errorf("sqlitelease: %w", authority.ErrClosed)
	}
	select {
	case <-j.done:
		return j.err
	case <-a.writer.ended: // only what serves the lines is sent so late
		return fmt.Errorf("sqlitelease: %w", authority.ErrClosed)
	case <-ctx.Done():
		if j.state.CompareAndSwap(queued, abandoned) {
			return a.notReached(ctx, j)
		}
		return fmt.Errorf("sqlitelease: %s: the request may or may not have been carried out: %w", a.path, ctx.Err())
	}
}

// notReached names the known exception: somebody else stands in the way.
func (a *Authority) notReached(ctx context.Context, j *job) error {
	// The job's own word first: when it gives up, the writer may have stopped
	// trying before this is read.
	since := cmp.Or(j.blocked.Load(), a.writer.blocked.Load())
	if since == 0 {
		return fmt.Errorf("sqlitelease: %s: nothing was done: %w", a.path, ctx.Err())
	}
	return fmt.Errorf("sqlitelease: %s: nothing was done: another process has held the file's write lock for %v (perhaps it is stopped inside a transaction: look for one in state T with the file open, and continue or kill it). "+
		"Until it goes on, no lease of this file can be granted or renewed: %w", a.path, time.Since(time.Unix(0, since)).Round(time.Millisecond), ctx.Err())
}

// write does the jobs in one transaction and answers them.
func (a *Authority) write(jobs []*job) {
	done, err := a.transact(jobs)
	for _, j := range done {
		if j.err = err; err == nil && j.then != nil {
			j.then()
		}
		close(j.done)
	}
}

// transact returns the jobs that were taken on. Nobody waits for the others.
func (a *Authority) transact(jobs []*job) (taken []*job, err error) {
	w, c := &a.writer, a.writer.conn
	if err := w.syncFor(jobs); err != nil {
		return take(jobs), a.explain(err)
	}
	wanted := func() bool {
		if w.blocked.Load() == 0 {
			w.blocked.Store(time.Now().UnixNano())
		}
		some := false
		for _, j := range jobs {
			j.blocked.Store(w.blocked.Load())
			some = some || j.state.Load() == queued && j.ctx.Err() == nil
		}
		return some
	}
	err = c.begin(wanted)
	defer w.blocked.Store(0)
	taken = take(jobs)
	if err != nil {
		return taken, a.explain(err)
	}
	defer c.rollback()
	if err := a.usable(c); err != nil {
		return taken, a.explain(err)
	}
	for _, j := range taken {
		// The clock is read now, with the lock held: what was waited for the
		// lock counts against the lease.
		if err := j.run(c, a.clock.Now()); err != nil {
			return taken, a.explain(err)
		}
	}
	if err := c.Exec(`COMMIT`); err != nil {
		return taken, fmt.Errorf("%w (at the commit: it may or may not have been carried out)", a.plain(err))
	}
	return taken, nil
}

// take leaves out those whose context is done: their callers go, or have gone,
// and are told that nothing was done.
func take(jobs []*job) (taken []*job) {
	for _, j := range jobs {
		if j.ctx.Err() == nil && j.state.CompareAndSwap(queued, running) {
			taken = append(taken, j)
		}
	}
	return taken
}

// syncFor sets how durable the next transaction is.
func (w *writer) syncFor(jobs []*job) error {
	full := false
	for _, j := range jobs {
		full = full || !j.soft
	}
	if full == w.full {
		return nil
	}
	mode := `PRAGMA synchronous = NORMAL`
	if full {
		mode = `PRAGMA synchronous = FULL`
	}
	if err := w.conn.Exec(mode); err != nil {
		return err
	}
	w.full = full
	return nil
}
