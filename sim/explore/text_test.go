package explore

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/protocol"
)

func TestAPlanReadsBackAsItWasWritten(t *testing.T) {
	for seed := range uint64(500) {
		p := Draw(seed, protocol.RuleFence|protocol.RuleBeat)
		back, err := Parse("# a comment\n" + p.Text() + "---\nnot read")
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Text())
		}
		if !reflect.DeepEqual(p, back) {
			t.Fatalf("seed %d: wrote\n%s\nand read\n%s", seed, p.Text(), back.Text())
		}
	}
}

func TestAPlanWithLineEndsOfWindowsIsTheSame(t *testing.T) {
	p := Draw(1, protocol.RuleFence)
	text := strings.ReplaceAll(File(p), "\n", "\r\n")
	back, err := Parse(text)
	if err != nil || !IsPlan(text) || !reflect.DeepEqual(p, back) {
		t.Errorf("%v: wrote\n%s\nand read\n%s", err, p.Text(), back.Text())
	}
}

func TestNonsenseInAPlanIsRefusedWithWhatIsAllowed(t *testing.T) {
	good := Draw(1, 0).Text()
	for line, want := range map[string]string{
		"set margin -1":            "margin",
		"set margin 3600":          "margin",
		"set ttl never":            "not a time",
		"set colour 3":             "no setting",
		"set workers 900":          "1 to 8",
		"set nodes 4":              "3 or 5",
		"set torn 2":               "0 or 1",
		"at 1 A island n=3":        "both ways",
		"without gravity":          "the rules are",
		"at 1 A explode":           "there is no",
		"at 1 Z pause for=1":       "pause is for",
		"at -1 A pause for=1":      "negative",
		"at 1 A cut peer=Q for=1":  "peer is one of",
		"at 0 A rate n=5000":       "at most 1000",
		"at 1 A pause how=hard":    "a fault has",
		"at 1e400 A pause for=1":   "not a time",
		"world flat":               "there are",
		"tomorrow A pauses":        "not a line",
		"at 1 lock restore n=text": "invalid syntax",
	} {
		_, err := Parse(good + line + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, and does not say %q", line, err, want)
		}
	}
}

func FuzzParseNeverPanicsAndRoundTrips(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(Draw(seed, 0).Text())
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		back, err := Parse(p.Text())
		if err != nil || back.Text() != p.Text() {
			t.Fatalf("%v\n%s\nbecame\n%s", err, p.Text(), back.Text())
		}
	})
}

// sumOfPlans is the sum of what 200 plans print. Every build has to give it, with
// -race and without. A change of what a world prints changes it: say so in the
// commit. (On other processors the last bit of a logarithm may differ.)
const sumOfPlans = 0x8c17c7db572afa64

// TestTheSamePlanGivesTheSameBytes: on one processor and on two, and in every
// build.
func TestTheSamePlanGivesTheSameBytes(t *testing.T) {
	files := func(procs int) []string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		var all []string
		for seed := range uint64(200) {
			p := Draw(seed, protocol.RuleFence)
			if p.raftable() && seed%2 == 0 {
				p.Raft = 1
			}
			all = append(all, File(p))
		}
		return all
	}
	one, two := files(1), files(2)
	sum := fnvOffset
	for seed := range one {
		if one[seed] != two[seed] {
			t.Fatalf("seed %d: the runs differ:\n%s\n%s", seed, one[seed], two[seed])
		}
		sum.text(one[seed])
	}
	if runtime.GOARCH == "amd64" && uint64(sum) != sumOfPlans {
		t.Errorf("the sum of 200 plans is %#x in this build, not %#x", uint64(sum), uint64(sumOfPlans))
	}
}

func TestTheFindingDoesNotDependOnTheWorkers(t *testing.T) {
	o := Options{Runs: 2000, Without: protocol.RuleConditional}
	one := Explore(context.Background(), o)
	o.Workers = 4
	four := Explore(context.Background(), o)
	if one.Found == nil || four.Found == nil || !reflect.DeepEqual(one.Found, four.Found) {
		t.Errorf("one worker found %+v, four found %+v", one.Found, four.Found)
	}
}

func TestAnExplorationEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r := Explore(ctx, Options{Runs: 1 << 40, Workers: 2}); r.Runs > 2 {
		t.Errorf("%d runs after the end", r.Runs)
	}
}
