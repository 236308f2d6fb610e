package memlease_test

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/authority/memlease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeClock struct{ now atomic.Int64 }

func (c *fakeClock) Now() authority.Instant  { return authority.Instant(c.now.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.now.Add(int64(d)) }

func TestConformanceOnFakeClock(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{Open: func(*testing.T) authoritytest.Handle {
		c := &fakeClock{}
		return authoritytest.Handle{Authority: memlease.New(c), Advance: c.advance}
	}})
}

func TestConformanceOnBootClock(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{Open: func(*testing.T) authoritytest.Handle {
		return authoritytest.Handle{Authority: memlease.New(nil)}
	}})
}

func TestFaultLayerWithoutFaultsIsTransparent(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{Open: func(*testing.T) authoritytest.Handle {
		c := &fakeClock{}
		return authoritytest.Handle{Authority: faulty.NewBulk(memlease.New(c), nil), Advance: c.advance}
	}})
}

func TestEachMemURLIsItsOwnAuthority(t *testing.T) {
	for range 2 {
		a, err := authority.Open(t.Context(), "mem:")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Acquire(t.Context(), authority.Request{Name: "x", Length: time.Minute, Nonce: "n"}); err != nil {
			t.Errorf("a second mem: shares the first one's leases: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheSameProgramGivesTheSameHistory(t *testing.T) {
	open := func(wrap func(*memlease.Authority) authority.Authority) func(*testing.T) authoritytest.Handle {
		return func(*testing.T) authoritytest.Handle {
			c := &fakeClock{}
			return authoritytest.Handle{Authority: wrap(memlease.New(c)), Advance: c.advance}
		}
	}
	authoritytest.Random(t,
		open(func(a *memlease.Authority) authority.Authority { return a }),
		open(func(a *memlease.Authority) authority.Authority { return faulty.New(a, nil) }))
}
