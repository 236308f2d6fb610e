package stint

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
)

// A lease that ended at the authority leaves nothing in its process that would keep
// the others of that process out: the one waits already, the other comes later.
func TestALeaseThatWasLostKeepsNobodyOfItsOwnProcessOut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		first := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		waits, errs := background(t.Context(), c, "job")
		b.sleepUntil(time.Second)
		// It ends there, unknown to its holder.
		if err := b.inner.Release(t.Context(), authority.Grant{Grant: first.Grant(), Name: "job", Length: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		lost := b.clock.Now()
		var second *Lease
		select {
		case second = <-waits:
		case err := <-errs:
			t.Fatal(err)
		}
		if took := b.clock.Now().Sub(lost); took > time.Second || second.Token() <= first.Token() {
			t.Errorf("the one that waited was let in after %v, with token %d after %d", took, second.Token(), first.Token())
		}
		if err := first.Release(t.Context()); !errors.Is(err, authority.ErrNotHeld) {
			t.Errorf("release of the lost lease: %v", err)
		}
		wantHeld(t, second)
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		released := b.clock.Now()
		third := must[*Lease](t)(c.TryAcquire(t.Context(), "job"))
		if took := b.clock.Now().Sub(released); took > 0 {
			t.Errorf("the next one was let in after %v", took)
		}
		wantHeld(t, third)
	})
}

// Who waits does nothing: no request goes out for the waiters, and, as time in a
// bubble goes on only while all goroutines sleep, no loop runs.
func TestTenWaitersCostNothingWhileTheyWait(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var requests counter
		c := b.client(Options{})
		must[*Lease](t)(c.Acquire(t.Context(), "job"))
		for range 10 {
			background(t.Context(), c, "job")
		}
		b.sleepUntil(time.Second)
		asked := map[string]*counter{"renew": {}, "acquire": {}, "release": {}}
		b.net.SetPlan(func(op string, _ int) faulty.Fault {
			if n := asked[op]; n != nil {
				n.add()
			}
			requests.add()
			return faulty.Pass
		})
		b.sleepUntil(61 * time.Second)
		renewals := asked["renew"].value()
		if all := requests.value(); all != renewals || renewals < 10 || renewals > 60 {
			t.Errorf("in a minute %d requests went out, %d of them renewals, %d acquires", all, renewals, asked["acquire"].value())
		}
	})
}
