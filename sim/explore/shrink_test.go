package explore

import (
	"context"
	"testing"

	"github.com/stint-dev/stint/internal/protocol"
)

// TestShrinkingThatIsStoppedKeepsTheSmallestSoFar: whoever waits no longer loses
// nothing of what was found.
func TestShrinkingThatIsStoppedKeepsTheSmallestSoFar(t *testing.T) {
	r := Explore(context.Background(), Options{Seed: found[protocol.RuleMargin], Runs: 1000, Without: protocol.RuleMargin})
	if r.Found == nil {
		t.Fatal("nothing was found")
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	before := len(r.Found.Plan.Faults)
	least, tried := before, 0
	small := Shrink(ctx, r.Found.Plan, func(left, n int) {
		if ctx.Err() != nil {
			t.Errorf("plan %d is tried after the end", n)
		}
		if left > least || n != tried {
			t.Errorf("%d faults are left after %d plans, and before there were %d after %d", left, n, least, tried)
		}
		least, tried = left, n+1
		if left < before {
			stop() // this plan is tried to the end
		}
	})
	if ctx.Err() == nil {
		t.Fatalf("of %d faults none was left out", before)
	}
	if n := len(small.Faults); n >= before || n > least {
		t.Errorf("%d of %d faults are left; there was a plan with %d", n, before, least)
	}
	if again := Run(small, false); again.Broken == nil || again.Broken.Promise != r.Found.Broken.Promise {
		t.Errorf("it breaks %v, not %v", again.Broken, r.Found.Broken)
	}
	whole := Shrink(context.Background(), r.Found.Plan, nil)
	if len(whole.Faults) >= len(small.Faults) {
		t.Errorf("%d faults are left when it is not stopped, and %d when it is", len(whole.Faults), len(small.Faults))
	}
}
