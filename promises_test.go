package stint

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
)

// late is an authority that does not listen to contexts and is asked late: what
// it grants, it grants to somebody who may have gone.
type late struct {
	authority.Authority
	delay time.Duration
}

func (l late) Acquire(_ context.Context, r authority.Request) (authority.Grant, error) {
	time.Sleep(l.delay)
	return l.Authority.Acquire(context.Background(), r)
}

func TestAGrantThatComesAfterItsCallerHasGoneIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.clientOf(late{b.net, 5 * time.Second}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		b.sleepUntil(6 * time.Second)
		if s := b.inspect("job"); s.Held || s.Grant.IsZero() {
			t.Fatalf("one second after the late grant: %+v; want it granted and released", s)
		}
		if n := b.net.Count("renew"); n != 0 {
			t.Errorf("%d renewals of a grant that nobody has", n)
		}
	})
}

// Not even an authority that does not listen to contexts holds up its caller.
func TestAcquireReturnsByItsDeadlineWhateverTheAuthorityDoes(t *testing.T) {
	for _, wait := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bubble) {
			c := b.clientOf(late{b.net, time.Minute}, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := c.acquire(ctx, "job", wait)
			if now := b.clock.Now(); !errors.Is(err, context.DeadlineExceeded) || now > authority.Instant(2*time.Second) {
				t.Errorf("wait %v: %v at %v", wait, err, now)
			}
		})
	}
}

// A process whose release never arrives waits for its own lease to run out like
// anybody else: not longer, and with a higher token.
func TestAReleaseThatNeverArrivesCostsItsOwnProcessOneLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		b.net.SetPlan(func(op string, _ int) faulty.Fault {
			if op == "release" {
				return faulty.Fault{DropRequest: true, Hang: true}
			}
			return faulty.Pass
		})
		first := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := first.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		second := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		if now := b.clock.Now(); now > authority.Instant(10*time.Second).Add(b.inner.Lateness()) || second.Token() <= first.Token() {
			t.Errorf("token %d after %d, at %v", second.Token(), first.Token(), now)
		}
		wantHeld(t, second)
	})
}

func TestAWaiterWithAShortLeaseDoesNotJudgeTheHoldersByItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		o := Options{TTL: 30 * time.Second, Renew: 20 * time.Second, Timeout: 3 * time.Second, Margin: 3 * time.Second}
		holder := must[*Lease](t)(b.client(o).Acquire(t.Context(), "job"))
		leases, errs := background(t.Context(), b.client(Options{TTL: 10 * time.Second}), "job")
		b.sleepUntil(5 * time.Minute)
		wantHeld(t, holder)
		if len(leases)+len(errs) != 0 {
			t.Fatal("the waiter was let in beside a holder that renews every 20 s")
		}
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantHeld(t, <-leases)
	})
}

func TestAClosedClientsLeaseStaysOverWhateverIsAskedOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{BeatWithin: time.Second})
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		time.Sleep(5 * time.Second) // starved: the next beat wakes the loop
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		renewed := b.net.Count("renew")
		for range 100 {
			l.Beat()
		}
		time.Sleep(time.Minute)
		if s := l.Status(); s.Held || s.Left != 0 || b.net.Count("renew") != renewed {
			t.Errorf("after Close and a beat: %+v", s)
		}
		wantLost(t, l, ErrReleased)
	})
}

func TestWithChangesTheSettingsAndSharesTheLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		if _, err := c.With(Options{TTL: -1}); !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("a bad setting: %v", err)
		}
		short := must[*Client](t)(c.With(Options{TTL: 2 * time.Second, Holder: "the other"}))
		long := must[*Lease](t)(c.TryAcquire(t.Context(), "long"))
		l := must[*Lease](t)(short.TryAcquire(t.Context(), "short"))
		if s := b.inspect("short"); s.Length != 2*time.Second || s.Holder != "the other" {
			t.Errorf("the authority holds %+v", s)
		}
		if s := b.inspect("long"); s.Length != 10*time.Second {
			t.Errorf("the authority holds %+v", s)
		}
		if err := short.Close(); err != nil {
			t.Fatal(err)
		}
		wantLost(t, l, ErrReleased)
		wantLost(t, long, ErrReleased) // one loop: closing either closes both
		if _, err := c.TryAcquire(t.Context(), "long"); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if late, err := c.With(Options{}); err == nil {
			if _, err := late.TryAcquire(t.Context(), "long"); !errors.Is(err, ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// What a process does with a lease is not the concern of its other leases: one
// that is lost costs the others nothing.
func TestALostLeaseCostsTheOthersOfItsClientNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		broken := must[*Lease](t)(c.Acquire(t.Context(), "broken"))
		kept := must[*Lease](t)(c.Acquire(t.Context(), "kept"))
		g := authority.Grant{Grant: broken.Grant(), Name: "broken", Length: 10 * time.Second}
		if err := b.inner.Release(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantLost(t, broken, ErrTakenOver)
		wantHeld(t, kept)
	})
}

// The longest time that can be written is "for ever", and no overflow.
func TestTheLongestWaitIsForEver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		const forever = time.Duration(math.MaxInt64)
		holder := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		leases, errs := background(t.Context(), b.client(Options{Wait: forever, BeatWithin: forever}), "job")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(leases)+len(errs) != 0 {
			t.Fatalf("the waiting ended: %v", <-errs)
		}
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := <-leases
		time.Sleep(10 * time.Minute) // never beats, and need not
		wantHeld(t, l)
	})
}
