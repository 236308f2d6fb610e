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
)

func TestTokensOfANameGrow(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		var last *Lease
		for range 20 {
			l := must[*Lease](t)(c.TryAcquire(t.Context(), "job"))
			if last != nil && l.Token() <= last.Token() {
				t.Fatalf("token %d after %d", l.Token(), last.Token())
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			last = l
		}
	})
}

func TestTryAcquireSaysWhoHoldsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		must[*Lease](t)(b.client(Options{Holder: "first worker"}).TryAcquire(t.Context(), "job"))
		time.Sleep(time.Second)
		_, err := b.client(Options{}).TryAcquire(t.Context(), "job")
		var held *authority.HeldError
		if !errors.Is(err, ErrHeld) || !errors.As(err, &held) {
			t.Fatalf("got %v, want ErrHeld", err)
		}
		if s := held.State; s.Holder != "first worker" || s.Left != 9*time.Second || s.Grant.Token == 0 {
			t.Errorf("the refusal says %+v", s)
		}
	})
}

func TestAWaitersLeaseDoesNotAgeWhileItWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		holder := must[*Lease](t)(b.client(Options{TTL: 20 * time.Second}).TryAcquire(t.Context(), "job"))
		leases, _ := background(t.Context(), b.client(Options{TTL: 5 * time.Second}), "job")
		b.sleepUntil(18 * time.Second)
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := <-leases
		if left := l.Status().Left; left != 4*time.Second {
			t.Fatalf("the waiter has %v left of its 5 s lease with a margin of 1 s, want 4s", left)
		}
		time.Sleep(30 * time.Second)
		wantHeld(t, l)
	})
}

func TestAGrantOlderThanItsStopTimeIsNotReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		// The authority keeps the request for 6 s and answers well within *its*
		// idea of the request; the lease of 5 s is over by then.
		c := b.clientOf(deaf{b.inner, 6 * time.Second}, Options{TTL: 5 * time.Second})
		l, err := c.TryAcquire(t.Context(), "job")
		if err == nil {
			t.Fatalf("got a lease with %v left", l.Status().Left)
		}
		if !errors.Is(err, ErrTooLate) && !errors.Is(err, ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(20 * time.Second)
		if s := b.inspect("job"); s.Held {
			t.Fatalf("%+v was left behind", s)
		}
	})
}

// deaf is an authority that does not listen to contexts and answers slowly.
type deaf struct {
	authority.Authority
	delay time.Duration
}

func (d deaf) Acquire(_ context.Context, r authority.Request) (authority.Grant, error) {
	g, err := d.Authority.Acquire(context.Background(), r)
	time.Sleep(d.delay)
	return g, err
}

func TestLeasesAreNotReentrant(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		first := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		leases, errs := background(t.Context(), c, "job")
		b.sleepUntil(time.Minute)
		if len(leases)+len(errs) != 0 {
			t.Fatal("the second Acquire of one process did not wait")
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := <-leases; l.Token() <= first.Token() {
			t.Fatalf("token %d after %d", l.Token(), first.Token())
		}
	})
}

func TestAWaitThatEndsLeavesNothingBehind(t *testing.T) {
	cause := errors.New("shutting down")
	for name, end := range map[string]func(context.Context) (context.Context, func(), Options, error){
		"cancelled": func(ctx context.Context) (context.Context, func(), Options, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(cause) }, Options{}, cause
		},
		"deadline": func(ctx context.Context) (context.Context, func(), Options, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			context.AfterFunc(ctx, cancel)
			return ctx, func() {}, Options{}, context.DeadlineExceeded
		},
		"Options.Wait": func(ctx context.Context) (context.Context, func(), Options, error) {
			return ctx, func() {}, Options{Wait: 2 * time.Second}, ErrHeld
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				holder := must[*Lease](t)(b.client(Options{}).TryAcquire(t.Context(), "job"))
				ctx, stop, o, want := end(t.Context())
				start := b.clock.Now()
				leases, errs := background(ctx, b.client(o), "job")
				time.Sleep(2 * time.Second)
				stop()
				if err := <-errs; !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				if took := b.clock.Now().Sub(start); took > 2*time.Second+time.Millisecond {
					t.Errorf("the waiter was told after %v", took)
				}
				synctest.Wait()
				if n := b.inspect("job").Waiters; n != 0 {
					t.Errorf("%d left in line", n)
				}
				if err := holder.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(leases) != 0 || b.inspect("job").Held {
					t.Error("the waiter that had gone was granted the lease")
				}
				// Nobody is delayed by it.
				at := b.clock.Now()
				must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
				if waited := b.clock.Now().Sub(at); waited != 0 {
					t.Errorf("the next waited %v", waited)
				}
			})
		})
	}
}

func TestAcquireReturnsByItsDeadlineWhenNobodyAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.cut()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		at := b.clock.Now()
		_, err := b.client(Options{}).Acquire(ctx, "job")
		if took := b.clock.Now().Sub(at); !errors.Is(err, context.DeadlineExceeded) || took > 2*time.Second {
			t.Fatalf("%v after %v", err, took)
		}
	})
}

// TestAnAcquireThatIsCancelledSaysWhatTheAuthoritySaidLast: "deadline exceeded"
// alone would not tell a wrong password from a long line.
func TestAnAcquireThatIsCancelledSaysWhatTheAuthoritySaidLast(t *testing.T) {
	failing := func(op string, n int) faulty.Fault {
		if op == "acquire" && n <= 2 {
			return faulty.DropRequest
		}
		return faulty.Fault{DropRequest: true, Hang: true}
	}
	stopped := errors.New("shutting down")
	inBubble(t, func(t *testing.T, b *bubble) {
		b.net.SetPlan(failing)
		ctx, cancel := context.WithCancelCause(t.Context())
		_, errs := background(ctx, b.client(Options{}), "job")
		time.Sleep(time.Second)
		cancel(stopped)
		err := <-errs
		if !errors.Is(err, stopped) || !errors.Is(err, faulty.ErrDropped) || !strings.Contains(err.Error(), "shutting down; at last: ") {
			t.Errorf("got %v", err)
		}
	})
	inBubble(t, func(t *testing.T, b *bubble) { // it fails at first, then answers that another holds
		must[*Lease](t)(b.client(Options{}).TryAcquire(t.Context(), "job"))
		b.net.SetPlan(nth("acquire", b.net.Count("acquire")+1, faulty.DropRequest))
		ctx, cancel := context.WithCancelCause(t.Context())
		var trouble counter
		_, errs := background(ctx, b.client(Options{Retrying: func(error) { trouble.add() }}), "job")
		time.Sleep(2 * time.Second)
		cancel(stopped)
		if err := <-errs; !errors.Is(err, stopped) || errors.Is(err, faulty.ErrDropped) || trouble.value() != 1 {
			t.Errorf("after %d failures that were over: %v", trouble.value(), err)
		}
	})
}

func TestTryAcquireGivesUpWhenNobodyAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.cut()
		at := b.clock.Now()
		_, err := b.client(Options{}).TryAcquire(t.Context(), "job")
		if took := b.clock.Now().Sub(at); !errors.Is(err, ErrNoAnswer) || took > 10*time.Second {
			t.Fatalf("%v after %v", err, took)
		}
	})
}

func TestALostAnswerNeverBlocksTheNameForItsOwnProcess(t *testing.T) {
	for _, f := range []faulty.Fault{faulty.DropRequest, faulty.DropAnswer, {DropRequest: true, Hang: true}, {DropAnswer: true, Hang: true}} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v/%v", f, wait), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					b.net.SetPlan(nth("acquire", 1, f))
					c := b.client(Options{})
					l := must[*Lease](t)(c.acquire(t.Context(), "job", wait))
					if at := b.clock.Now(); at > authority.Instant(3*time.Second) {
						t.Errorf("granted at %v", at)
					}
					time.Sleep(time.Minute)
					wantHeld(t, l)
					if s := b.inspect("job"); s.Grant != l.Grant() || s.Waiters != 0 {
						t.Errorf("the authority holds %+v, the lease is %v", s, l.Grant())
					}
				})
			})
		}
	}
}

func TestACancelledAcquireWhoseAnswerWasLostIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.net.SetPlan(nth("acquire", 1, faulty.Fault{DropAnswer: true, Hang: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.client(Options{}).Acquire(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := b.inspect("job"); s.Held {
			t.Fatalf("one second later it is still held: %+v", s)
		}
		if n := b.net.Count("renew"); n != 0 {
			t.Fatalf("%d renewals of a grant that nobody has", n)
		}
	})
}

func TestAWaiterWhoseWaitFailsGoesOnWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		holder := must[*Lease](t)(b.client(Options{}).TryAcquire(t.Context(), "job"))
		b.net.SetPlan(func(op string, n int) faulty.Fault {
			if op == "wait" && n <= 3 {
				return faulty.DropRequest
			}
			return faulty.Pass
		})
		var trouble counter
		leases, _ := background(t.Context(), b.client(Options{Retrying: func(error) { trouble.add() }}), "job")
		time.Sleep(5 * time.Second)
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantHeld(t, <-leases)
		if trouble.value() != 3 {
			t.Errorf("told of %d failures, want 3", trouble.value())
		}
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		holder := must[*Lease](t)(b.client(Options{}).TryAcquire(t.Context(), "job"))
		var mu sync.Mutex
		var served []int
		var group sync.WaitGroup
		for i := range 30 {
			c := b.client(Options{})
			group.Go(func() {
				err := c.Do(t.Context(), "job", func(context.Context, *Lease) error {
					mu.Lock()
					defer mu.Unlock()
					served = append(served, i)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		for i, who := range served {
			if who != i {
				t.Fatalf("served in the order %v", served)
			}
		}
		if len(served) != 30 {
			t.Fatalf("%d of 30 were served", len(served))
		}
	})
}

func TestWaitingIsToldWhoHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		holder := must[*Lease](t)(b.client(Options{Holder: "first"}).TryAcquire(t.Context(), "job"))
		told := make(chan authority.State, 10)
		leases, _ := background(t.Context(), b.client(Options{Waiting: func(s authority.State) { told <- s }}), "job")
		if s := <-told; s.Holder != "first" || s.Grant != holder.Grant() {
			t.Errorf("told %+v", s)
		}
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-leases
	})
}

func TestBadNamesAreRefusedBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		for _, name := range []string{"", "a\x00b", "line\nbreak", "\xff", string(make([]byte, fence.MaxName+1))} {
			if _, err := c.TryAcquire(t.Context(), name); !errors.Is(err, authority.ErrInvalid) {
				t.Errorf("name %.20q: %v", name, err)
			}
		}
		if n := b.net.Count("acquire"); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		for _, name := range []string{"/a", "a//b", "a/../b", " a ", "a%2Fb", "#x", "A", "a", "a."} {
			must[*Lease](t)(c.TryAcquire(t.Context(), name)) // all at once: they are distinct
		}
	})
}
