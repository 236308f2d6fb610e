package stint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/clock"
)

func TestALeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		time.Sleep(time.Hour)
		wantHeld(t, l)
		if s := l.Status(); s.Renewals < 1199 || s.Retries != 0 || s.LastErr != nil {
			t.Errorf("after an hour of a lease renewed every 3 s: %+v", s)
		}
	})
}

// A fence bounds by it what the holder can hold up at the resource.
func TestTheContextOfALeaseTellsTheTimeToItsStopTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{TTL: 10 * time.Second}).Acquire(t.Context(), "job"))
		for range 3 { // renewed in between
			if left, known := fence.TimeLeft(l.Context()); !known || left != l.Status().Left || left <= 0 || left > 8*time.Second {
				t.Errorf("left is %v, %v, the status says %v", left, known, l.Status().Left)
			}
			time.Sleep(7 * time.Second)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left, known := fence.TimeLeft(l.Context()); !known || left > 0 {
			t.Errorf("after the release %v is left, %v", left, known)
		}
	})
}

func TestALeaseTakenJustAfterAReleaseIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{TTL: time.Second, Renew: 250 * time.Millisecond})
		first := must[*Lease](t)(c.TryAcquire(t.Context(), "k1"))
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		l := must[*Lease](t)(c.TryAcquire(t.Context(), "k2"))
		time.Sleep(5 * time.Second)
		wantHeld(t, l)
		if n := l.Status().Renewals; n < 15 {
			t.Errorf("%d renewals in 5 s", n)
		}
	})
}

func TestOneFailedRenewalCostsARetryAndNothingElse(t *testing.T) {
	for _, f := range []faulty.Fault{faulty.DropRequest, faulty.DropAnswer, {DropAnswer: true, Hang: true}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.net.SetPlan(nth("renew", 1, f))
				l := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
				b.sleepUntil(4600 * time.Millisecond)
				if s := l.Status(); !s.Held || s.Retries != 1 {
					t.Fatalf("after one lost renewal: %+v", s)
				}
				time.Sleep(time.Minute)
				wantHeld(t, l)
				if s := l.Status(); s.LastErr != nil || b.inspect("job").Grant != l.Grant() {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestUncertaintyIsAStateOfItsOwnBeforeTheStopTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		b.cut()
		b.sleepUntil(6 * time.Second)
		wantHeld(t, l)
		if s := l.Status(); s.LastErr == nil || s.Left != 2*time.Second {
			t.Fatalf("cut off for 3 s: %+v", s)
		}
		b.sleepUntil(8 * time.Second)
		lost := wantLost(t, l, ErrExpired)
		if !errors.Is(lost, faulty.ErrDropped) {
			t.Errorf("the reason does not say that the authority was out of reach: %v", lost)
		}
	})
}

func TestALossSaysWhoTookOver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{}).Acquire(t.Context(), "job"))
		// Break glass, and a rival.
		if err := b.inner.Release(t.Context(), authority.Grant{Grant: l.Grant(), Name: "job", Length: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		rival := must[*Lease](t)(b.client(Options{}).TryAcquire(t.Context(), "job"))
		b.sleepUntil(3 * time.Second)
		if lost := wantLost(t, l, ErrTakenOver); lost.By != rival.Token() {
			t.Errorf("taken over by %d, want %d", lost.By, rival.Token())
		}
		if err := l.Release(t.Context()); !errors.Is(err, authority.ErrNotHeld) {
			t.Errorf("release of the lost lease: %v", err)
		}
		wantHeld(t, rival)
	})
}

func TestAHolderThatIsCutOffStopsBeforeItsRivalIsGranted(t *testing.T) {
	for _, delay := range []time.Duration{0, 300 * time.Millisecond, 800 * time.Millisecond} {
		for phase := range 60 {
			cutAt := 5*time.Second + time.Duration(phase)*50*time.Millisecond
			inBubble(t, func(t *testing.T, b *bubble) {
				b.net.SetPlan(func(string, int) faulty.Fault { return faulty.Fault{After: delay} })
				l := must[*Lease](t)(b.client(Options{TTL: 4 * time.Second, Timeout: time.Second}).Acquire(t.Context(), "job"))
				stopped := make(chan authority.Instant, 1)
				context.AfterFunc(l.Context(), func() { stopped <- b.clock.Now() })
				b.sleepUntil(cutAt)
				b.cut()
				rival := must[*Lease](t)(b.clientOf(b.inner, Options{}).Acquire(t.Context(), "job"))
				granted := b.clock.Now()
				if at := <-stopped; at >= granted {
					t.Fatalf("answers %v late, cut at %v: stopped at %v, the rival was granted at %v", delay, cutAt, at, granted)
				}
				if rival.Token() <= l.Token() {
					t.Fatalf("token %d after %d", rival.Token(), l.Token())
				}
			})
		}
	}
}

// An outage is survived if it is shorter than the lease less margin, one renewal
// period and one retry (a third of the time-out).
func TestLeasesRideOutAnAuthorityWithoutALeader(t *testing.T) {
	const s = time.Second
	t.Run("by default 0.44 of the lease", func(t *testing.T) { rideOut(t, Options{}, 4400*time.Millisecond) })
	t.Run("renewed faster 0.6 of the lease", func(t *testing.T) {
		rideOut(t, Options{Renew: 2 * s, Margin: s, Timeout: 1500 * time.Millisecond}, 6*s)
	})
}

func rideOut(t *testing.T, o Options, outage time.Duration) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(o)
		var leases []*Lease
		for i := range 100 {
			time.Sleep(30 * time.Millisecond) // spread over a renewal period
			leases = append(leases, must[*Lease](t)(c.Acquire(t.Context(), fmt.Sprint("job", i))))
		}
		time.Sleep(time.Minute)
		b.net.SetPlan(func(string, int) faulty.Fault { return faulty.DropRequest })
		time.Sleep(outage)
		b.heal()
		time.Sleep(time.Minute)
		for _, l := range leases {
			wantHeld(t, l)
			if got := b.inspect(l.Name()).Grant; got != l.Grant() {
				t.Errorf("%s: the grant became %v", l.Name(), got)
			}
		}
	})
}

func TestRenewalGoesOnForTheNextLeaseAfterACut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		first := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		b.cut()
		time.Sleep(20 * time.Second)
		wantLost(t, first, ErrExpired)
		b.heal()
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		time.Sleep(30 * time.Second)
		wantHeld(t, l)
		wantLost(t, first, ErrExpired) // it never comes alive again
	})
}

func TestALeaseEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		gone := errors.New("the request is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		l := must[*Lease](t)(b.client(Options{}).Acquire(ctx, "job"))
		b.sleepUntil(5 * time.Second)
		renewed := b.net.Count("renew")
		cancel(gone)
		synctest.Wait()
		if err := l.Err(); !errors.Is(err, ErrCancelled) || !errors.Is(err, gone) {
			t.Fatalf("Err: %v", err)
		}
		leases, _ := background(t.Context(), b.client(Options{}), "job")
		<-leases
		if now, free := b.clock.Now(), authority.Instant(13*time.Second); now > free.Add(b.inner.Lateness()) {
			t.Errorf("granted to the next at %v, renewed last at 3 s", now)
		}
		if n := b.net.Count("renew"); n != renewed {
			t.Errorf("%d renewals after the context ended", n-renewed)
		}
	})
}

func TestWorkThatStopsBeatingIsNotRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{BeatWithin: 3 * time.Second}).Acquire(t.Context(), "job"))
		for range 20 {
			time.Sleep(time.Second)
			l.Beat()
		}
		wantHeld(t, l)
		last := b.clock.Now()
		leases, _ := background(t.Context(), b.client(Options{}), "job")
		<-leases
		if free := b.clock.Now(); free > last.Add(3*time.Second+10*time.Second).Add(b.inner.Lateness()) {
			t.Errorf("the last beat was at %v, the name free at %v", last, free)
		}
		wantLost(t, l, ErrWorkStopped)
	})
}

func TestABeatBeforeTheStopTimeResumesRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		l := must[*Lease](t)(b.client(Options{BeatWithin: time.Second}).Acquire(t.Context(), "job"))
		b.sleepUntil(7 * time.Second)
		l.Beat()
		synctest.Wait()
		if left := l.Status().Left; left != 8*time.Second {
			t.Fatalf("%v left after the beat, want 8s", left)
		}
	})
}

func TestASuspendedMachineFindsItsLeaseOverBeforeAnyTimerFires(t *testing.T) {
	fake := new(clock.Fake)
	fake.Advance(time.Hour)
	c, err := newClient(faulty.New(everHeld{}, nil), Options{}, fake)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	fake.Jump(60 * time.Second) // the machine slept; no timer has fired yet
	if err := l.Err(); !errors.Is(err, ErrExpired) {
		t.Fatalf("after a sleep of 60 s: %v", err)
	}
	fake.Advance(0)
	<-l.Context().Done()
	if err := context.Cause(l.Context()); !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}
}

// everHeld grants and renews whatever is asked.
type everHeld struct{}

func (everHeld) Acquire(_ context.Context, r authority.Request) (authority.Grant, error) {
	g := authority.Grant{Name: r.Name, Length: r.Length}
	g.Token, g.Nonce = 1, r.Nonce
	return g, nil
}
func (everHeld) Renew(_ context.Context, g authority.Grant) (authority.Grant, error) { return g, nil }
func (everHeld) Release(context.Context, authority.Grant) error                      { return nil }
func (everHeld) Inspect(context.Context, string) (authority.State, error) {
	return authority.State{}, nil
}
func (everHeld) Close() error { return nil }

func TestErrAllocatesNothing(t *testing.T) {
	c, err := New(everHeld{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
	if n := testing.AllocsPerRun(1000, func() {
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		l.Beat()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
