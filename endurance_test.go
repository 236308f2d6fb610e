package stint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
)

// The loop may be held up between reading the clock for a renewal's answer and
// noting it. Whoever looks meanwhile, after the stop time, finds the lease over;
// then it stays over.
func TestALeaseThatWasFoundOverStaysOver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{TTL: time.Second})
		c.rt.trace = func(_ *Lease, _ authority.Instant, _ protocol.Event, effects []protocol.Effect) {
			for _, e := range effects {
				if _, ok := e.(protocol.Kept); ok {
					time.Sleep(700 * time.Millisecond)
				}
			}
		}
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		over := false
		for range 3000 {
			time.Sleep(time.Millisecond)
			err := l.Err()
			if err == nil && over {
				t.Fatalf("at %v the lease came alive again", b.clock.Now())
			}
			over = over || err != nil
		}
		wantLost(t, l, ErrExpired)
	})
}

func TestAFloodOfAcquiresCostsNoLeaseThatIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.net.SetPlan(func(op string, _ int) faulty.Fault { return faulty.Fault{Before: 50 * time.Millisecond} })
		c := b.client(Options{TTL: 2 * time.Second})
		l := must[*Lease](t)(c.Acquire(t.Context(), "held"))
		var group sync.WaitGroup
		for i := range 5000 {
			group.Go(func() {
				other, err := c.TryAcquire(t.Context(), fmt.Sprint("job", i))
				if err == nil {
					_ = other.Release(t.Context())
				} else if !errors.Is(err, ErrNoAnswer) {
					t.Error(err)
				} else if strings.Contains(err.Error(), "given back") && strings.Contains(err.Error(), "never sent") {
					t.Errorf("nothing was sent, and yet: %v", err)
				}
			})
		}
		group.Wait()
		wantHeld(t, l)
	})
}

// heedless takes no notice of contexts.
type heedless struct {
	authority.Authority
	takes time.Duration
}

func (h heedless) Renew(_ context.Context, g authority.Grant) (authority.Grant, error) {
	time.Sleep(h.takes)
	return h.Authority.Renew(context.Background(), g)
}

func TestCloseDoesNotHangOnAnAuthorityThatHeedsNoContext(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.clientOf(heedless{b.inner, 10 * time.Minute}, Options{})
		must[*Lease](t)(c.Acquire(t.Context(), "job"))
		b.sleepUntil(4 * time.Second)
		at := b.clock.Now()
		err := c.Close()
		if took := b.clock.Now().Sub(at); err == nil || took > 6*time.Second {
			t.Errorf("Close took %v and says %v", took, err)
		}
	})
}

// broken cannot work, and says so.
type broken struct{ authority.Authority }

func (broken) Acquire(context.Context, authority.Request) (authority.Grant, error) {
	return authority.Grant{}, fmt.Errorf("the file was removed: %w", authority.ErrBroken)
}

func TestNobodyWaitsForAnAuthorityThatCannotWork(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		_, err := b.clientOf(broken{b.inner}, Options{}).Acquire(t.Context(), "job")
		if !errors.Is(err, authority.ErrBroken) || b.clock.Now() != 0 {
			t.Errorf("at %v: %v", b.clock.Now(), err)
		}
	})
}

func TestALongLeaseDoesNotMeanALongSilence(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.cut()
		_, err := b.client(Options{TTL: 24 * time.Hour}).TryAcquire(t.Context(), "job")
		if took := time.Duration(b.clock.Now()); !errors.Is(err, ErrNoAnswer) || took > 30*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestAReleaseWithoutAnyAnswerNamesItsReason(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.clientOf(mute{b.inner}, Options{TTL: 2 * time.Second}).Acquire(t.Context(), "job"))
		err := l.Release(t.Context())
		if !errors.Is(err, fence.ErrUnknown) || strings.Contains(err.Error(), "%!") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
	})
}

// mute never answers a release, nor heeds its context for a while.
type mute struct{ authority.Authority }

func (mute) Release(context.Context, authority.Grant) error {
	time.Sleep(time.Minute)
	return errors.New("cut")
}
