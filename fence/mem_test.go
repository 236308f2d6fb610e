package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	fencetest.Run(t, fencetest.Subject{Open: func(*testing.T) fencetest.Handle {
		return fencetest.Handle{Store: memoryStore(fence.NewMemory())}
	}})
}

func memoryStore(m *fence.Memory) fencetest.Store {
	var mu sync.Mutex
	data := map[string]string{}
	return fencetest.Store{
		Fence: m, Row: m.Row, Bar: m.Bar, Prune: m.Prune,
		Write: func(ctx context.Context, c fence.Claim, key, value string, between func() error) error {
			return m.Do(ctx, c, func() error {
				if between != nil {
					if err := between(); err != nil {
						return err
					}
				}
				if err := ctx.Err(); err != nil {
					return context.Cause(ctx)
				}
				mu.Lock()
				defer mu.Unlock()
				data[key] = value
				return nil
			})
		},
		Read: func(_ context.Context, key string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return data[key], nil
		},
		Remove: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			clear(data)
			return nil
		},
	}
}

func TestASecondWriterOfAResumedClaimWaitsItsTurn(t *testing.T) {
	m := fence.NewMemory()
	g := fence.Grant{Token: 7, Nonce: "a"}
	if _, err := m.Raise(t.Context(), "job", g); err != nil {
		t.Fatal(err)
	}
	c, err := fence.Resume("job", g)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Seq.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Do(ctx, c, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("a claim whose turn was taken: %v", err)
	}
	c.Seq.Unlock()
	if err := m.Do(t.Context(), c, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestResumeRefusesBadInput(t *testing.T) {
	if _, err := fence.Resume("", fence.Grant{Token: 7, Nonce: "a"}); err == nil {
		t.Error("an empty name was accepted")
	}
	if _, err := fence.Resume("job", fence.Grant{Token: 7}); err == nil {
		t.Error("a grant without a nonce was accepted")
	}
}
