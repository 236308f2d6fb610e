package sqltests

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/backends/pgfence"
	"github.com/stint-dev/stint/fence"
)

// worker does the whole job: raise, read how far the work came, write the rest
// chunk by chunk, finish.
type worker interface {
	raises(ctx context.Context, g fence.Grant) error
	finishWork(ctx context.Context, g fence.Grant) error
	close()
}

// perChunk is how many invoices a chunk has that is written by COPY: enough for
// several messages.
const perChunk = 5000

func (o order) worker(ctx context.Context) (worker, error) {
	s := &stepper{steps: o.Steps}
	return o.workerOn(ctx, s)
}

func (o order) workerOn(ctx context.Context, s *stepper) (worker, error) {
	if o.Copy {
		return newCopier(ctx, o.Place, s)
	}
	db, err := o.Place.stepped(s)
	if err != nil {
		return nil, err
	}
	return o.Place.over(db)
}

func (s *store) finishWork(ctx context.Context, g fence.Grant) error {
	c, err := s.f.Raise(ctx, job, g)
	if err != nil {
		return err
	}
	have, err := s.howMany(ctx, "")
	if err != nil {
		return err
	}
	for i := have; i < chunks; {
		err := s.write(ctx, c, chunk(i), "v", nil)
		if err == nil {
			i++
		} else if !s.f.Retryable(err) {
			return err
		}
	}
	return s.f.Finish(ctx, c)
}

// copier is a worker with pgx, whose chunks go by COPY.
type copier struct {
	place
	pool *pgxpool.Pool
	f    *pgfence.Fence
}

func newCopier(ctx context.Context, p place, s *stepper) (*copier, error) {
	c, err := pgxpool.ParseConfig(p.DSN)
	if err != nil {
		return nil, err
	}
	c.ConnConfig.DialFunc = s.Dial
	c.HealthCheckPeriod = time.Hour // no writes but the worker's
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	f, err := pgfence.New(pool, pgfence.Options{Table: p.Fence, Settle: p.Settle, LockTimeout: p.Lock})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &copier{p, pool, f}, nil
}

func (w *copier) close() { w.pool.Close() }

func (w *copier) finishWork(ctx context.Context, g fence.Grant) error {
	c, err := w.f.Raise(ctx, job, g)
	if err != nil {
		return err
	}
	var have int
	if err := w.pool.QueryRow(ctx, w.q("SELECT count(DISTINCT k) FROM {d}")).Scan(&have); err != nil {
		return err
	}
	for i := have; i < chunks; {
		err := w.write(ctx, c, chunk(i))
		if err == nil {
			i++
		} else if !w.f.Retryable(err) {
			return err
		}
	}
	return w.f.Finish(ctx, c)
}

func (w *copier) write(ctx context.Context, c fence.Claim, key string) error {
	return w.f.InTx(ctx, c, pgx.TxOptions{}, func(tx pgx.Tx) error {
		rows := pgx.CopyFromSlice(perChunk, func(i int) ([]any, error) {
			return []any{key, fmt.Sprint("invoice ", i), int64(c.Grant.Token)}, nil
		})
		n, err := tx.CopyFrom(ctx, pgx.Identifier{w.Data}, []string{"k", "v", "token"}, rows)
		if err == nil && n != perChunk {
			err = fmt.Errorf("COPY took %d rows", n)
		}
		return err
	})
}

func (s *store) raises(ctx context.Context, g fence.Grant) error {
	_, err := s.f.Raise(ctx, job, g)
	return err
}

func (w *copier) raises(ctx context.Context, g fence.Grant) error {
	_, err := w.f.Raise(ctx, job, g)
	return err
}
