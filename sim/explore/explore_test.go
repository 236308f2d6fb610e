package explore

import (
	"context"
	"fmt"
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
		t.Fatalf("seed %d: %v\n%s", r.Found.Seed, &r.Found.Broken, File(Shrink(context.Background(), r.Found.Plan, nil)))
	}
	if r.Runs != runs {
		t.Errorf("%d runs were made, not %d", r.Runs, runs)
	}
	t.Logf("%.0f simulated seconds in %v", r.Simulated.Seconds(), r.Took)
}

// found is the seed from which on a violation comes soon, where the first one is
// late: the tests need not visit the thousands before it.
var found = map[protocol.Rules]uint64{
	protocol.RuleExactOwner:      5350,
	protocol.RuleSentAt:          1540,
	protocol.RuleClearCheckpoint: 6080,
	protocol.RuleFloor:           870,
	protocol.RuleClockFree:       870,
	protocol.RuleSecondSighting:  800,
	protocol.RuleMargin:          590, // an earlier one is on Raft, where to shrink it takes ten times as long
	protocol.RuleMonotonic:       370,
}

func TestEveryRuleThatIsLeftOutBreaksAPromise(t *testing.T) {
	for _, rule := range protocol.AllRules.Each() {
		t.Run(rule.String(), func(t *testing.T) {
			r := Explore(context.Background(), Options{Seed: found[rule], Runs: 1000, Without: rule, Workers: runtime.GOMAXPROCS(0)})
			if r.Found == nil {
				t.Fatalf("no violation in %d runs from seed %d on", r.Runs, found[rule])
			}
			small := Shrink(context.Background(), r.Found.Plan, nil)
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

// TestTheWorldsAreOfEveryKind: every cast, service and fault is drawn, so that
// nothing is promised that no world has tried.
func TestTheWorldsAreOfEveryKind(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(runs) {
		p := Draw(seed, 0)
		if err := p.Check(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Text())
		}
		drawn["world "+string(p.Kind)]++
		if p.Raft == 1 {
			drawn[fmt.Sprintf("raft %s %d torn %d", p.Kind, len(p.nodes()), p.Torn)]++
		}
		for _, f := range p.Faults {
			what := f.What
			if f.What == "island" || f.What == "suspend" {
				what += fmt.Sprint(" ", f.N)
			}
			if f.What == "rate" && f.At > 0 {
				what = "rate on the way"
			}
			drawn[what]++
		}
	}
	want := []string{"suspend 0", "suspend 1", "island 0", "island 1", "island 2", "rate on the way"}
	for verb := range verbs {
		if verb != "island" && verb != "suspend" {
			want = append(want, verb)
		}
	}
	for _, k := range Kinds() {
		want = append(want, "world "+string(k))
		if (Plan{Kind: k}).raftable() {
			for _, service := range []string{"3 torn 0", "3 torn 1", "5 torn 0", "5 torn 1"} {
				want = append(want, fmt.Sprintf("raft %s %s", k, service))
			}
		}
	}
	for _, what := range want {
		if drawn[what] == 0 {
			t.Errorf("in %d worlds there is no %q", runs, what)
		}
	}
}

func TestNoPromiseIsBrokenOnRealRaft(t *testing.T) {
	r := Explore(context.Background(), Options{Runs: 200, Workers: runtime.GOMAXPROCS(0), Raft: true})
	if r.Found != nil {
		p := r.Found.Plan
		t.Fatalf("seed %d: %v\n%s", r.Found.Seed, &r.Found.Broken, File(Shrink(context.Background(), p, nil)))
	}
	t.Logf("%.0f simulated seconds in %v", r.Simulated.Seconds(), r.Took)
}
