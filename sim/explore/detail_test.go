package explore

import (
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// TestDetailShowsMoreOfTheSameRun: the details come in between, and change nothing
// of what happens, nor of what the checkers say.
func TestDetailShowsMoreOfTheSameRun(t *testing.T) {
	more := 0
	for seed := range uint64(60) {
		p := Draw(seed, protocol.RuleFence)
		if p.raftable() {
			p.Raft = 1
		}
		plain, detailed := Run(p, true), Detailed(p)
		all := detailed.Events
		detailed.Events = slices.DeleteFunc(slices.Clone(all), func(e world.Event) bool { return e.Detail })
		more += len(all) - len(detailed.Events)
		if Story(plain) != Story(detailed) {
			t.Errorf("seed %d: with details it is\n%s\nand without\n%s", seed, Story(detailed), Story(plain))
		}
	}
	if more == 0 {
		t.Error("no world has a detail")
	}
}
