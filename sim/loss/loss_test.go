package loss

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// TestARuleThatCostsTimeOnlyHasAMeasuredLoss: the same worlds with it and without
// it. stint sim loss prints the figures.
func TestARuleThatCostsTimeOnlyHasAMeasuredLoss(t *testing.T) {
	const worlds = 16
	measure := func(without protocol.Rules) Sum {
		told := 0
		s, err := Measure(context.Background(), 0, worlds, without, func(n int) { told += n })
		if err != nil {
			t.Fatal(err)
		}
		if told != worlds*(worlds+1)/2 {
			t.Errorf("the progress that was told adds up to %d", told)
		}
		if s.Worlds != worlds || s.Twice != 0 {
			t.Fatalf("without %v: %d worlds, %d charged twice", without, s.Worlds, s.Twice)
		}
		t.Logf("without %q: %d of %d done, stood still for %v in each, takeovers %d", without, s.Done, s.Worlds, s.Each(s.Still), s.Grants)
		return s
	}
	on := measure(0)
	if on.Done != worlds {
		t.Errorf("with every rule %d of %d jobs are done", on.Done, worlds)
	}
	if off := measure(protocol.RuleEqual); off.Done != 0 || off.Each(off.Still) < 100*time.Second || off.Grants < 2*on.Grants {
		t.Errorf("without equal: %+v; with it: %+v", off, on)
	}
	if off := measure(protocol.RuleBeat); off.Still < 3*on.Still/2 || off.Worst < on.Worst+10*time.Second {
		t.Errorf("without beat: %+v; with it: %+v", off, on)
	}
}

func TestAJobStandsStillFromOneChunkToTheNext(t *testing.T) {
	at := func(sec int, what string) world.Event {
		return world.Event{T: time.Duration(sec) * time.Second, What: what}
	}
	for _, c := range []struct {
		what   string
		events []world.Event
		want   time.Duration
	}{
		{"no chunk at all", nil, until - slack},
		{"one gap", []world.Event{at(2, "write"), at(20, "write"), at(22, "done")}, 13 * time.Second},
		{"the end is missing", []world.Event{at(2, "write"), at(50, "kept")}, until - 2*time.Second - slack},
		{"what comes after the end does not count", []world.Event{at(2, "write"), at(3, "done"), at(90, "granted")}, 0},
	} {
		if got := stood(c.events); got != c.want {
			t.Errorf("%s: %v, not %v", c.what, got, c.want)
		}
	}
}
