package stint

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/fence"
)

func TestAReleasedNameIsFreeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		leases, _ := background(t.Context(), b.client(Options{}), "job")
		synctest.Wait()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-leases
		if now := b.clock.Now(); now != 0 {
			t.Errorf("granted to the next at %v", now)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("released again: %v", err)
		}
		wantLost(t, l, ErrReleased)
	})
}

func TestAnOldLeaseNeverReleasesItsSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.net.SetPlan(func(op string, _ int) faulty.Fault {
			if op == "renew" {
				return faulty.DropRequest
			}
			return faulty.Pass
		})
		old := must[*Lease](t)(b.client(Options{TTL: time.Second}).Acquire(t.Context(), "job"))
		next := must[*Lease](t)(b.clientOf(b.inner, Options{}).Acquire(t.Context(), "job"))
		if err := old.Release(t.Context()); !errors.Is(err, authority.ErrNotHeld) {
			t.Errorf("got %v, want ErrNotHeld", err)
		}
		if s := b.inspect("job"); s.Grant != next.Grant() || !s.Held {
			t.Errorf("the authority holds %+v", s)
		}
		wantHeld(t, next)
	})
}

// No lock inside the process outlives the lease.
func TestAnExpiredLeaseBlocksNobodyInItsOwnProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{TTL: time.Second})
		b.net.SetPlan(func(op string, _ int) faulty.Fault {
			if op == "renew" {
				return faulty.DropRequest
			}
			return faulty.Pass
		})
		old := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		time.Sleep(2 * time.Second)
		b.heal()
		_ = old.Release(t.Context())
		must[*Lease](t)(c.TryAcquire(t.Context(), "job"))
	})
}

func TestALostReleaseIsSettled(t *testing.T) {
	for _, f := range []faulty.Fault{faulty.DropRequest, faulty.DropAnswer, {DropRequest: true, Hang: true}, {DropAnswer: true, Hang: true}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.net.SetPlan(nth("release", 1, f))
				c := b.client(Options{})
				first := must[*Lease](t)(c.Acquire(t.Context(), "job"))
				go func() { _ = first.Release(context.Background()) }()
				second := must[*Lease](t)(c.Acquire(t.Context(), "job"))
				if at := b.clock.Now(); second.Token() <= first.Token() || at > authority.Instant(3*time.Second) {
					t.Errorf("token %d after %d, at %v", second.Token(), first.Token(), at)
				}
				if err := first.Release(t.Context()); err != nil {
					t.Errorf("the first release: %v", err)
				}
				wantHeld(t, second)
			})
		})
	}
}

func TestAReleaseThatCannotBeConfirmedSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		b.cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		wantLost(t, l, ErrReleased)
		if err := l.Release(t.Context()); !errors.Is(err, fence.ErrUnknown) {
			t.Fatalf("when the lease has run out: %v", err)
		}
	})
}

func TestNoRenewalFollowsARelease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{TTL: time.Second, Renew: 50 * time.Millisecond, Timeout: 500 * time.Millisecond})
		var mu sync.Mutex
		released := map[string]bool{}
		slow := watched{b.net, func(g authority.Grant) {
			mu.Lock()
			defer mu.Unlock()
			if released[g.Grant.String()] {
				t.Errorf("%v was renewed after its release", g.Grant)
			}
		}}
		b.net.SetPlan(func(string, int) faulty.Fault {
			return faulty.Fault{Before: 20 * time.Millisecond, After: 20 * time.Millisecond}
		})
		c = b.clientOf(slow, c.o)
		var group sync.WaitGroup
		for w := range 50 {
			group.Go(func() {
				for i := range 200 {
					l, err := c.Acquire(t.Context(), fmt.Sprint("job", w))
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Duration(i%10) * 10 * time.Millisecond)
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					released[l.Grant().String()] = true
					mu.Unlock()
				}
			})
		}
		group.Wait()
		time.Sleep(2 * time.Second)
		for w := range 50 {
			if s := b.inspect(fmt.Sprint("job", w)); s.Held {
				t.Errorf("%+v", s)
			}
		}
		if len(released) != 10000 {
			t.Errorf("%d leases were released", len(released))
		}
	})
}

// watched sees every renewal as it is sent.
type watched struct {
	*faulty.Authority
	renewing func(authority.Grant)
}

func (w watched) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	w.renewing(g)
	return w.Authority.Renew(ctx, g)
}

func TestCloseReleasesEveryLeaseByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		var leases []*Lease
		for i := range 5 {
			leases = append(leases, must[*Lease](t)(c.Acquire(t.Context(), fmt.Sprint("job", i))))
		}
		failing := leases[1].Grant()
		c.rt.authority = stubborn{b.net, failing}
		err := c.Close()
		if err == nil || !strings.Contains(err.Error(), `"job1"`) || strings.Count(err.Error(), "job") != 1 {
			t.Errorf("Close says: %v", err)
		}
		renewals := b.net.Count("renew")
		for i, l := range leases {
			wantLost(t, l, ErrReleased)
			if held := b.inspect(l.Name()).Held; held != (i == 1) {
				t.Errorf("job%d held: %v", i, held)
			}
		}
		time.Sleep(time.Minute)
		if n := b.net.Count("renew"); n != renewals {
			t.Errorf("%d renewals after Close", n-renewals)
		}
	})
}

// stubborn fails to release one grant.
type stubborn struct {
	authority.Authority
	not fence.Grant
}

func (s stubborn) Release(ctx context.Context, g authority.Grant) error {
	if g.Grant == s.not {
		return errors.New("internal error")
	}
	return s.Authority.Release(ctx, g)
}

func TestAClosedClientRefusesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		leases, errs := background(t.Context(), c, "job")
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !errors.Is(err, ErrClosed) || len(leases) != 0 {
			t.Errorf("the waiter was told %v", err)
		}
		if n := b.inspect("job").Waiters; n != 0 {
			t.Errorf("%d left in line", n)
		}
		if _, err := c.Acquire(t.Context(), "job"); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire after Close: %v", err)
		}
		wantLost(t, l, ErrReleased)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release after Close: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

func TestCloseDoesNotHangOnASilentAuthority(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		b.cut()
		at := b.clock.Now()
		if err := c.Close(); err == nil || b.clock.Now().Sub(at) > 3*time.Second {
			t.Errorf("Close took %v and says %v", b.clock.Now().Sub(at), err)
		}
		if err := l.Release(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Release after Close: %v", err)
		}
	})
}

func TestDoGivesTheLeaseBackHoweverItsWorkEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		failed := errors.New("no paper")
		err := c.Do(t.Context(), "job", func(context.Context, *Lease) error { return failed })
		if !errors.Is(err, failed) || b.inspect("job").Held {
			t.Errorf("%v; held: %v", err, b.inspect("job").Held)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = c.Do(t.Context(), "job", func(context.Context, *Lease) error { panic("paper jam") })
		}()
		synctest.Wait()
		if b.inspect("job").Held {
			t.Error("held after the panic")
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = c.Do(ctx, "job", func(ctx context.Context, _ *Lease) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || b.inspect("job").Held {
			t.Errorf("%v; held: %v", err, b.inspect("job").Held)
		}
	})
}

func TestDoSaysThatTheLeaseWasOverThoughTheWorkSaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		err := b.client(Options{}).Do(t.Context(), "job", func(ctx context.Context, _ *Lease) error {
			b.cut()
			<-ctx.Done()
			b.heal()
			return nil
		})
		if !errors.Is(err, ErrExpired) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDoDoesNotMindThatItsWorkReleasesTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		err := b.client(Options{}).Do(t.Context(), "job", func(ctx context.Context, l *Lease) error {
			return l.Release(context.WithoutCancel(ctx))
		})
		if err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// While work that ignores its context still runs, nobody else is let in before
// the authority's own expiry.
func TestALeaseIsNeverGivenAwayBeforeTheWorkHasReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_ = b.client(Options{}).Do(ctx, "job", func(context.Context, *Lease) error {
				time.Sleep(8 * time.Second) // ignores its context
				return nil
			})
		}()
		b.sleepUntil(time.Second)
		cancel()
		must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		if now := b.clock.Now(); now < authority.Instant(8*time.Second) {
			t.Errorf("the next holder was let in at %v, the work ended at 8s", now)
		}
	})
}

func TestALeaseCostsNoGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		before := goruntime.NumGoroutine()
		for i := range 10000 {
			must[*Lease](t)(c.TryAcquire(t.Context(), fmt.Sprint("job", i)))
		}
		synctest.Wait()
		if n := goruntime.NumGoroutine() - before; n > 5 {
			t.Errorf("10,000 leases run %d goroutines", n)
		}
	})
}
