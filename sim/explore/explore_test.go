package explore

import (
	"context"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runs is how many random worlds the tests visit with every rule on. The full
// number is: stint sim explore --runs 100000.
const runs = 2000

func TestNoPromiseIsBrokenWithEveryRuleOn(t *testing.T) {
	r := Explore(context.Background(), Options{Runs: runs, Workers: runtime.GOMAXPROCS(0)})
	if r.Found != nil {
		t.Fatalf("seed %d: %v\n%s", r.Found.Seed, &r.Found.Broken, File(Shrink(r.Found.Plan)))
	}
	if r.Runs != runs {
		t.Errorf("%d runs were made, not %d", r.Runs, runs)
	}
	t.Logf("%.0f simulated seconds in %v", r.Simulated.Seconds(), r.Took)
}

// found is the seed from which on a violation comes soon, where the first one is
// late: the tests need not visit the thousands before it.
var found = map[protocol.Rules]uint64{
	protocol.RuleRaiseFirst:      5300,
	protocol.RuleMargin:          9560,
	protocol.RuleClearCheckpoint: 6450,
}

func TestEveryRuleThatIsLeftOutBreaksAPromise(t *testing.T) {
	for _, rule := range protocol.AllRules.Each() {
		t.Run(rule.String(), func(t *testing.T) {
			r := Explore(context.Background(), Options{Seed: found[rule], Runs: 1000, Without: rule, Workers: runtime.GOMAXPROCS(0)})
			if r.Found == nil {
				t.Fatalf("no violation in %d runs from seed %d on", r.Runs, found[rule])
			}
			small := Shrink(r.Found.Plan)
			again := Run(small, false)
			if again.Broken == nil || again.Broken.Promise != r.Found.Broken.Promise {
				t.Fatalf("the shrunk plan breaks %v, not %v", again.Broken, r.Found.Broken)
			}
			if n := len(small.Faults); n > 12 {
				t.Errorf("%d faults and events are left after shrinking, more than 12:\n%s", n, small.Text())
			}
			small.Without = 0
			if with := Run(small, false); with.Broken != nil && with.Broken.Promise == again.Broken.Promise {
				t.Errorf("it is broken with the rule, too: %v", with.Broken)
			}
			t.Logf("seed %d, %d of %d faults left: %v", r.Found.Seed, len(small.Faults), len(r.Found.Plan.Faults), again.Broken)
		})
	}
}

func TestNoPromiseIsBrokenOnRealRaft(t *testing.T) {
	r := Explore(context.Background(), Options{Runs: 200, Workers: runtime.GOMAXPROCS(0), Raft: true})
	if r.Found != nil {
		p := r.Found.Plan
		t.Fatalf("seed %d: %v\n%s", r.Found.Seed, &r.Found.Broken, File(Shrink(p)))
	}
	t.Logf("%.0f simulated seconds in %v", r.Simulated.Seconds(), r.Took)
}
