package scenario

import (
	"flag"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/protocol"
)

var seeds = flag.Uint64("seeds", 3000, "random scenarios to run")

// TestRandomWorldsKeepThePromises runs the machine through random worlds:
// whenever it believes that it holds the lease and its process runs, the
// authority agrees, unless the lease was broken; and when all is over, nothing
// is left behind.
func TestRandomWorldsKeepThePromises(t *testing.T) {
	for seed := range *seeds {
		s := Random(seed)
		v := newVirtual(s)
		var stop, last protocol.Instant
		broken, quit, left := false, false, false
		for _, step := range s.Steps {
			broken = broken || step.What == "break"
		}
		v.observe = func() {
			if v.machine.Holding() {
				stop = v.machine.Stop()
			}
			mine := strings.HasPrefix(v.world.grant.Nonce, Prefix+"-")
			inside := v.machine.Holding() && v.now < stop && v.now >= v.paused
			if inside && !broken && (!mine || v.world.until <= v.now) {
				t.Fatalf("seed %d at %v: the machine holds until %v, the authority has %v until %v\n%v",
					seed, v.now, stop, v.world.grant.Grant, v.world.until, v.transcript.String())
			}
			if inside && !broken && stop.Add(s.Times.Margin) > v.world.until {
				t.Fatalf("seed %d at %v: the stop time %v is less than the margin before the deadline %v\n%v",
					seed, v.now, stop, v.world.until, v.transcript.String())
			}
			if v.machine.Holding() && stop < last {
				t.Fatalf("seed %d at %v: the stop time went back from %v to %v", seed, v.now, last, stop)
			}
			last = stop
			if v.over && !quit {
				quit = true
				left = v.world.state().Held && strings.HasPrefix(v.world.grant.Nonce, Prefix+"-")
			}
		}
		v.run()
		s.check(t, seed, v, left && !s.late())
	}
}

func (s Script) check(t *testing.T, seed uint64, v *virtual, left bool) {
	t.Helper()
	fail := func(what string) {
		t.Fatalf("seed %d: %s\n%+v\n%v", seed, what, s, v.transcript.String())
	}
	switch {
	case !v.over:
		fail("the machine never quits")
	case left:
		fail("a grant is left at the authority")
	}
	// A leave that was lost every time is repaired by the authority's patience
	// with silent waiters, which this small world does not have.
	if lost := s.lost(protocol.OpLeave); lost == 0 && len(v.world.line) > 0 && !s.late() {
		fail("a place in the line is left at the authority")
	}
	for what, limit := range map[string]int{"> ended": 1, "> settled": 1, "> quit": 1, "> granted": 1} {
		if n := strings.Count(v.transcript.String(), what); n > limit {
			fail(what + " came more than once")
		}
	}
}

// lost counts the requests of a kind that had no answer.
func (s Script) lost(op protocol.Op) (n int) {
	for nth, f := range s.Faults {
		if nth.Op == op && (f.DropRequest || f.DropAnswer || f.DelayRequest > 0) {
			n++
		}
	}
	return n
}

// late reports whether a request may reach the authority after its caller gave it
// up: nobody can take such a one back, it runs out by itself.
func (s Script) late() bool {
	for nth, f := range s.Faults {
		if nth.Op <= protocol.OpRenew && (f.DelayRequest > 0 || f.Twice) {
			return true
		}
	}
	return false
}
