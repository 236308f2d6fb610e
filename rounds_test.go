package stint

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
)

// Ten leases taken within a sixteenth of the renewal time are renewed together,
// and stay together.
func TestRenewalsThatFallDueTogetherGoOutInOneRound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		net := faulty.NewBulk(b.inner, nil)
		c := b.clientOf(net, Options{})
		leases := b.acquireMany(c, 10, 15*time.Millisecond)
		b.sleepUntil(time.Hour)
		for _, l := range leases {
			wantHeld(t, l)
			if s := l.Status(); s.Renewals < 1199 || s.Retries != 0 {
				t.Errorf("after an hour of a lease renewed every 3 s: %+v", s)
			}
		}
		if n := net.Count("renewall"); n > 1201 || net.Count("renew") != 0 {
			t.Errorf("%d rounds and %d single renewals in 1200 times 3 s", n, net.Count("renew"))
		}
	})
}

func TestLeasesTakenAtAnyTimeAreRenewedInFewRounds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		net := faulty.NewBulk(b.inner, nil)
		leases := b.acquireMany(b.clientOf(net, Options{}), 300, 10*time.Millisecond) // over 3 s
		time.Sleep(time.Minute)
		before := net.Count("renewall")
		time.Sleep(time.Minute)
		if n := net.Count("renewall") - before; n > 20*17 {
			t.Errorf("%d rounds in 20 times 3 s", n)
		}
		for _, l := range leases {
			wantHeld(t, l)
		}
	})
}

func TestManyMoreThanARoundTakesAreRenewedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		net := faulty.NewBulk(b.inner, nil)
		leases := b.acquireMany(b.clientOf(net, Options{}), 2*ticksPerTurn+100, 0)
		b.sleepUntil(30 * time.Second)
		for _, l := range leases {
			if s := l.Status(); !s.Held || s.Renewals < 9 || s.Retries != 0 {
				t.Fatalf("%s: %+v", l.Name(), s)
			}
		}
		if n := net.Count("renewall"); n > 10*5 {
			t.Errorf("%d rounds in 10 times 3 s", n)
		}
	})
}

func TestARoundWithoutAnAnswerIsUnknownForEachOfItsLeases(t *testing.T) {
	for _, f := range []faulty.Fault{faulty.DropRequest, faulty.DropAnswer, {DropAnswer: true, Hang: true}} {
		inBubble(t, func(t *testing.T, b *bubble) {
			net := faulty.NewBulk(b.inner, nth("renewall", 1, f))
			leases := b.acquireMany(b.clientOf(net, Options{}), 10, 0)
			b.sleepUntil(4600 * time.Millisecond)
			for _, l := range leases {
				if s := l.Status(); !s.Held || s.Retries != 1 {
					t.Fatalf("%+v: after one lost round: %+v", f, s)
				}
			}
			b.sleepUntil(time.Minute)
			for _, l := range leases {
				wantHeld(t, l)
			}
		})
	}
}

// A round that finds no ear keeps the renewals of later ones waiting no more
// than one lease's keeps another's.
func TestADeafRoundHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		a := deafFor{inRounds{b.inner}, "deaf"}
		c := b.clientOf(a, Options{})
		deaf := must[*Lease](t)(c.Acquire(t.Context(), "deaf"))
		b.sleepUntil(time.Second)
		others := b.acquireMany(c, 100, 5*time.Millisecond)
		b.sleepUntil(7 * time.Second)
		wantHeld(t, deaf)
		for _, l := range others {
			if s := l.Status(); s.Renewals < 1 || s.Retries != 0 {
				t.Fatalf("renewed beside a deaf round: %+v", s)
			}
		}
		b.sleepUntil(10 * time.Second)
		wantLost(t, deaf, ErrExpired)
		b.sleepUntil(time.Minute)
		for _, l := range others {
			wantHeld(t, l)
		}
	})
}

// deafFor never answers a round in which a name is renewed, whatever its context
// says.
type deafFor struct {
	inRounds
	name string
}

func (d deafFor) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	for _, g := range grants {
		if g.Name == d.name {
			time.Sleep(10 * time.Minute) // virtual: as good as never
		}
	}
	return d.inRounds.RenewAll(ctx, grants)
}

func TestOneEndedLeaseOfARoundEndsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leases := b.acquireMany(b.clientOf(faulty.NewBulk(b.inner, nil), Options{}), 10, 0)
		lost := leases[4]
		// Break glass, and a rival.
		if err := b.inner.Release(t.Context(), authority.Grant{Grant: lost.Grant(), Name: lost.Name(), Length: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		rival := must[*Lease](t)(b.client(Options{}).TryAcquire(t.Context(), lost.Name()))
		b.sleepUntil(3 * time.Second)
		if e := wantLost(t, lost, ErrTakenOver); e.By != rival.Token() {
			t.Errorf("taken over by %d, want %d", e.By, rival.Token())
		}
		b.sleepUntil(time.Minute)
		for _, l := range leases {
			if l != lost {
				wantHeld(t, l)
			}
		}
	})
}

// order writes down what an authority is asked, when it is asked.
type order struct {
	inRounds
	mu  sync.Mutex
	log []string
}

func (o *order) note(what, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, what+" "+name)
}

func (o *order) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	select {
	case <-time.After(500 * time.Millisecond): // on its way
	case <-ctx.Done():
	}
	for _, g := range grants {
		o.note("renew", g.Name)
	}
	return o.inRounds.RenewAll(ctx, grants)
}

func (o *order) Release(ctx context.Context, g authority.Grant) error {
	o.note("release", g.Name)
	return o.inRounds.Release(ctx, g)
}

func TestNoRoundRenewsWhatWasReleased(t *testing.T) {
	for _, after := range []time.Duration{3 * time.Second, 3200 * time.Millisecond} { // in the turn of the round, and during it
		inBubble(t, func(t *testing.T, b *bubble) {
			o := &order{inRounds: inRounds{b.inner}}
			leases := b.acquireMany(b.clientOf(o, Options{}), 3, 0)
			b.sleepUntil(after)
			if err := leases[1].Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.sleepUntil(20 * time.Second)
			last := slices.Index(o.log, "release "+leases[1].Name())
			if last < 0 || slices.Contains(o.log[last:], "renew "+leases[1].Name()) {
				t.Errorf("released at %v: %q", after, o.log)
			}
			for _, i := range []int{0, 2} {
				wantHeld(t, leases[i])
				if n := leases[i].Status().Retries; n != 0 {
					t.Errorf("released at %v: it cost another lease %d retries", after, n)
				}
			}
		})
	}
}

func TestCloseEndsARoundThatNobodyWants(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		hangs := func(op string, _ int) faulty.Fault {
			return faulty.Fault{DropRequest: op == "renewall", Hang: true}
		}
		c := b.clientOf(faulty.NewBulk(b.inner, hangs), Options{})
		b.acquireMany(c, 10, 0)
		b.sleepUntil(3100 * time.Millisecond)
		if err := c.Close(); err != nil || b.clock.Now() != authority.Instant(3100*time.Millisecond) {
			t.Errorf("closed at %v: %v", b.clock.Now(), err)
		}
	})
}

// A lease of a short length does not wait for the answers of long ones, nor
// short of time for theirs.
func TestARoundIsOfOneLengthAndOfAboutOneDeadline(t *testing.T) {
	of := func(length, deadline time.Duration) renewal {
		return renewal{length: length, deadline: authority.Instant(deadline)}
	}
	const s = time.Second
	for _, c := range []struct {
		a, b renewal
		want bool
	}{
		{of(10*s, 3*s), of(10*s, 3*s), true},
		{of(10*s, 3*s), of(10*s, 3100*time.Millisecond), true},
		{of(10*s, 3*s), of(10*s, 4*s), false},
		{of(10*s, 3*s), of(30*s, 3*s), false},
	} {
		if got := together(authority.Instant(s), c.a, c.b); got != c.want {
			t.Errorf("%+v with %+v: %v", c.a, c.b, got)
		}
	}
}

// short gives one answer too few.
type short struct{ inRounds }

func (s short) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	return s.inRounds.RenewAll(ctx, grants)[1:]
}

func TestAnswersThatDoNotFitTheQuestionKeepNoLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leases := b.acquireMany(b.clientOf(short{inRounds{b.inner}}, Options{}), 3, 0)
		b.sleepUntil(9 * time.Second)
		for _, l := range leases {
			wantLost(t, l, ErrExpired)
		}
	})
}

// acquireMany takes leases one after the other.
func (b *bubble) acquireMany(c *Client, n int, pause time.Duration) []*Lease {
	b.t.Helper()
	leases := make([]*Lease, n)
	for i := range leases {
		leases[i] = must[*Lease](b.t)(c.Acquire(b.t.Context(), fmt.Sprint("job", i)))
		time.Sleep(pause) // virtual: the leases fall due apart
	}
	return leases
}
