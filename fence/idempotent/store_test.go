package idempotent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/idempotent"
	"github.com/stint-dev/stint/fence/idempotent/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Subject {
		f := fence.NewMemory()
		return storetest.Subject{Store: idempotent.NewMemory(f), Fence: f}
	})
}

func TestRecordsAreNotCountedAmongTheCallersTransactions(t *testing.T) {
	w := newWorld(t, kinds[1], true)
	c := w.raise(7)
	for range 2 {
		if err := w.f.Do(t.Context(), c, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if _, err := w.plain(c); err != nil {
			t.Error(err)
		}
	}
}

// silent is a store whose first requests are never answered.
type silent struct {
	idempotent.Store
	left atomic.Int64
}

func (s *silent) answers(ctx context.Context) error {
	if s.left.Add(-1) < 0 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) Get(ctx context.Context, key string) (idempotent.Record, error) {
	if err := s.answers(ctx); err != nil {
		return idempotent.Record{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *silent) Set(ctx context.Context, c fence.Claim, key string, was, now idempotent.Record) error {
	if err := s.answers(ctx); err != nil {
		return err
	}
	return s.Store.Set(ctx, c, key, was, now)
}

func TestAStoreThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	for _, k := range kinds {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, k, true)
			s := &silent{Store: w.s}
			s.left.Store(2)
			e := w.effect(func(_ context.Context, key string) (string, error) { return w.bank.pay(key), nil }, 10*time.Millisecond)
			if out, err := idempotent.Do(context.Background(), s, w.raise(7), e); out.State != idempotent.Done || err != nil {
				t.Errorf("%s: %v, %v", k.name, out, err)
			}
		})
	}
}
