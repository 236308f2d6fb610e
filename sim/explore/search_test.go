package explore

import (
	"context"
	"testing"

	"github.com/stint-dev/stint/internal/protocol"
)

// everything is a world in which messages are lost and the leader changes.
func everything(without protocol.Rules) SearchOptions {
	return SearchOptions{
		SmallConfig: SmallConfig{Workers: 2, Chunks: 2, Seconds: 4, Lost: 1, Changes: 1, Without: without},
		Steps:       5, States: 1_000_000,
	}
}

func TestNoOrderOfASmallWorldBreaksAPromise(t *testing.T) {
	for _, workers := range []int{2, 3} {
		o := everything(0)
		o.Workers = workers
		o.Steps -= workers - 2
		r := Search(context.Background(), o)
		if r.Broken != nil {
			t.Errorf("%d workers: %v\n%v", workers, r.Broken, r.Story)
		}
		if r.Steps != o.Steps || r.States < 1000 {
			t.Errorf("%d workers: only %d states within %d events were visited", workers, r.States, r.Steps)
		}
		t.Logf("%d workers: %d states, all within %d events, in %v", workers, r.States, r.Steps, r.Took)
	}
}

func TestASmallWorldShowsWhatARuleIsFor(t *testing.T) {
	for _, c := range []struct {
		rule    protocol.Rules
		lost    int
		steps   int
		promise string
	}{
		{protocol.RuleFence, 0, 9, PromiseOrder},
		{protocol.RuleSequence, 1, 7, PromiseOnce},
		{protocol.RuleSentAt, 1, 7, PromiseOverlap},
	} {
		o := everything(c.rule)
		o.Lost, o.Changes, o.Seconds, o.Steps = c.lost, 0, 3, c.steps
		r := Search(context.Background(), o)
		if r.Broken == nil || r.Broken.Promise != c.promise {
			t.Errorf("without %v: %v after %d states, all within %d events; want: %s", c.rule, r.Broken, r.States, r.Steps, c.promise)
			continue
		}
		t.Logf("without %v: %v, after %d states in %v", c.rule, r.Broken, r.States, r.Took)
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r := Search(ctx, everything(0)); r.States > 1 || r.Whole {
		t.Errorf("%d states were visited after the end", r.States)
	}
}

// A level of a large world may take minutes: it is told on the way, too.
func TestASearchTellsHowFarItIs(t *testing.T) {
	o := everything(0)
	o.Steps = 6
	var told []Searched
	o.Progress = func(s Searched) { told = append(told, s) }
	r := Search(context.Background(), o)
	if len(told) < o.Steps+3 {
		t.Errorf("it was told %d times in %d levels and %d states", len(told), r.Steps, r.States)
	}
	for i := 1; i < len(told); i++ {
		if told[i].States < told[i-1].States || told[i].Steps < told[i-1].Steps {
			t.Errorf("%+v was told after %+v", told[i], told[i-1])
		}
	}
}
