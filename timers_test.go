package stint

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/authority"
)

// Timers in any order come out by their times.
func TestTimersComeOutInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rt := &runtime{}
		leases := make([]*Lease, 40)
		for i := range leases {
			leases[i] = &Lease{}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			l := leases[rapid.IntRange(0, len(leases)-1).Draw(t, "lease")]
			rt.arm(l, authority.Instant(rapid.IntRange(0, 30).Draw(t, "at")))
		}
		set := map[*Lease]bool{}
		for _, l := range leases {
			if l.at != 0 {
				set[l] = true
			}
		}
		limit := authority.Instant(rapid.IntRange(0, 30).Draw(t, "limit"))
		found := rt.timers.until(nil, 0, limit, len(leases))
		if few := rt.timers.until(nil, 0, limit, 3); len(few) != min(3, len(found)) {
			t.Fatalf("%d of %d, asked for 3", len(few), len(found))
		}
		for _, l := range found {
			if !set[l] || l.at > limit {
				t.Fatalf("until %v found %v", limit, l.at)
			}
		}
		var last authority.Instant
		due := 0
		for n := len(set); n > 0; n-- {
			if len(rt.timers) != n {
				t.Fatalf("%d timers, want %d", len(rt.timers), n)
			}
			first := rt.timers[0]
			if first.at < last || first.lease.at != first.at || !set[first.lease] {
				t.Fatalf("%v after %v", first.at, last)
			}
			if last = first.at; last <= limit {
				due++
			}
			delete(set, first.lease)
			rt.arm(first.lease, 0)
		}
		if due != len(found) {
			t.Fatalf("until %v found %d, due were %d", limit, len(found), due)
		}
	})
}
