package sqlfunctions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/backends/pgfence"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// pool is a pgfence with a pool of one connection: nothing needs a second.
func pool(t *testing.T, s *store, more string) (*pgxpool.Pool, *pgfence.Fence) {
	t.Helper()
	p, err := pgxpool.New(t.Context(), s.at.At(s.at.Addr(), "pool_max_conns=1"+more))
	must(t, err)
	t.Cleanup(p.Close)
	f, err := pgfence.New(p, pgfence.Options{LockTimeout: time.Second})
	must(t, err)
	return p, f
}

func TestCopyBatchesAndSavepointsAreFenced(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "&default_query_exec_mode=exec", "&default_query_exec_mode=simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
			s.protect(t, "invoices", job, "")
			_, f := pool(t, s, mode)
			ctx := t.Context()
			work := func(tx pgx.Tx) error {
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{"invoices"}, []string{"chunk", "amount"}, pgx.CopyFromSlice(100, func(i int) ([]any, error) { return []any{1, i}, nil })); err != nil {
					return err
				}
				b := &pgx.Batch{}
				for range 3 {
					b.Queue(insert)
				}
				if err := tx.SendBatch(ctx, b).Close(); err != nil {
					return err
				}
				inner, err := tx.Begin(ctx)
				if err != nil {
					return err
				}
				if _, err := inner.Exec(ctx, insert); err != nil {
					return err
				}
				return inner.Rollback(ctx)
			}
			c, err := f.Raise(ctx, job, grant(7, "a"))
			must(t, err)
			must(t, f.InTx(ctx, c, pgx.TxOptions{}, work))
			must(t, f.InTx(ctx, c, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
				return errors.Join(work(tx), f.FinishTx(ctx, tx, c))
			}))
			next := s.raise(t, grant(12, "b")) // by the other library, on the same table
			if next.Previous.State != fence.Done || next.Previous.Seq != 2 || s.count(t) != 206 {
				t.Errorf("%d invoices, and before the raise %+v", s.count(t), next.Previous)
			}
			wants(t, f.InTx(ctx, c, pgx.TxOptions{}, work), fence.ErrStale)
			if err := f.InTx(ctx, c, pgx.TxOptions{AccessMode: pgx.ReadOnly}, work); err == nil {
				t.Error("a read-only transaction was taken")
			}
		})
	}
}

func TestTheEndOfATransactionInsidePgxIsTold(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
	_, f := pool(t, s, "")
	ctx := t.Context()
	c, err := f.Raise(ctx, job, grant(7, "a"))
	must(t, err)
	stop := errors.New("stop")
	for i, end := range []struct {
		do    func(tx pgx.Tx) error
		want  error
		count int
	}{
		{func(tx pgx.Tx) error { return tx.Commit(ctx) }, pgfence.ErrEnded, 1},
		{func(tx pgx.Tx) error { return tx.Rollback(ctx) }, pgfence.ErrEnded, 1},
		{func(tx pgx.Tx) error { return errors.Join(tx.Commit(ctx), stop) }, pgfence.ErrEnded, 2},
		{func(tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil }, pgfence.ErrRolledBack, 2},
		{func(tx pgx.Tx) error { return stop }, stop, 2},
	} {
		err := f.InTx(ctx, c, pgx.TxOptions{}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insert); err != nil {
				return err
			}
			return end.do(tx)
		})
		wants(t, err, end.want)
		if n := s.count(t); n != end.count {
			t.Fatalf("%d: %d invoices", i, n)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = f.InTx(ctx, c, pgx.TxOptions{}, func(pgx.Tx) error { panic("on purpose") })
	}()
	gone, cancel := context.WithCancel(ctx)
	wants(t, f.InTx(gone, c, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert)
		cancel()
		return err
	}), context.Canceled)
	wants(t, f.InTx(ctx, c, pgx.TxOptions{}, func(pgx.Tx) error { return f.Finish(ctx, c) }), pgfence.ErrNested)
	must(t, f.Finish(ctx, c)) // the pool's one connection is as good as new
	if n := s.count(t); n != 2 {
		t.Errorf("%d invoices", n)
	}
}

// NOTIFY inside InTx is part of the commit: who listens hears of what was
// admitted, and of nothing else.
func TestANotificationOfARefusedWriteIsNeverHeard(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
	p, f := pool(t, s, "")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	listener, err := pgx.Connect(ctx, s.at.DSN())
	must(t, err)
	defer listener.Close(context.WithoutCancel(ctx))
	_, err = listener.Exec(ctx, "LISTEN billed")
	must(t, err)
	tell := func(c fence.Claim, what string, result error) error {
		return f.InTx(ctx, c, pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, fmt.Sprintf("NOTIFY billed, '%s'", what))
			return errors.Join(err, result)
		})
	}
	a, err := f.Raise(ctx, job, grant(7, "a"))
	must(t, err)
	must(t, tell(a, "first", nil))
	wants(t, tell(a, "abandoned", errors.ErrUnsupported), errors.ErrUnsupported)
	b, err := f.Raise(ctx, job, grant(12, "b"))
	must(t, err)
	wants(t, tell(a, "of the zombie", nil), fence.ErrStale)
	must(t, tell(b, "second", nil))
	for _, want := range []string{"first", "second"} {
		n, err := listener.WaitForNotification(ctx)
		if err != nil || n.Payload != want {
			t.Fatalf("heard %+v, %v, want %q", n, err, want)
		}
	}
	if p.Stat().TotalConns() > 1 {
		t.Error("a second connection was needed")
	}
}

// stopped is a source of rows that stands still before its first.
type stopped struct{ begun, goOn chan struct{} }

func (s stopped) Next() bool {
	close(s.begun)
	<-s.goOn
	return false
}
func (stopped) Values() ([]any, error) { return nil, nil }
func (stopped) Err() error             { return nil }

// To the server such a client is not idle: no timeout of its own ends it.
func TestAClientThatStopsInsideCopyYieldsToARaise(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
	_, f := pool(t, s, "")
	ctx := t.Context()
	c, err := f.Raise(ctx, job, grant(7, "a"))
	must(t, err)
	rows := stopped{make(chan struct{}), make(chan struct{})}
	zombie := make(chan error, 1)
	go func() {
		zombie <- f.InTx(context.WithoutCancel(ctx), c, pgx.TxOptions{}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insert); err != nil {
				return err
			}
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"invoices"}, []string{"chunk", "amount"}, rows)
			return err
		})
	}()
	<-rows.begun
	until(t, "the server waits for its rows", func() bool {
		return s.at.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND state = 'active' AND datname = $1", s.at.Name) > 0
	})
	next := s.raise(t, grant(12, "b"))
	if next.Previous.Fence != 7 || next.Previous.Seq != 0 {
		t.Errorf("previous is %+v", next.Previous)
	}
	close(rows.goOn)
	if err := <-zombie; err == nil {
		t.Error("the zombie's COPY was committed")
	}
	wants(t, f.InTx(ctx, c, pgx.TxOptions{}, func(pgx.Tx) error { t.Error("it ran"); return nil }), fence.ErrStale)
	if n := s.count(t); n != 0 {
		t.Errorf("%d invoices", n)
	}
}
