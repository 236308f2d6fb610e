// Package loss measures what a rule is worth that costs nothing but time when it
// is left out: the same random worlds with it and without it, and how long the
// job stood still in each.
package loss

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// Rules are those whose loss is time only: no data is harmed without them.
const Rules = protocol.RuleEqual | protocol.RuleBeat

const (
	// until is when a world ends, done or not.
	until = 120 * time.Second
	// slack is how long after the last chunk the next one is not missed yet.
	slack = 5 * time.Second
)

// Sum is what came of a number of worlds.
type Sum struct {
	Worlds int
	Done   int           // jobs that were DONE in the end
	Still  time.Duration // for which the job stood still, in all
	Worst  time.Duration // in one world
	Grants int           // the first, and each takeover
	Twice  int           // invoices that were charged twice
}

// Each is a sum for one world.
func (s Sum) Each(d time.Duration) time.Duration {
	return (d / time.Duration(max(s.Worlds, 1))).Round(time.Millisecond)
}

// Measure runs the worlds of some seeds without some rules. It ends early with
// its context. After each world it calls progress, if that is not nil, with how
// many have been run.
func Measure(ctx context.Context, seed uint64, runs int, without protocol.Rules, progress func(int)) (Sum, error) {
	var s Sum
	for n := range uint64(runs) {
		if ctx.Err() != nil {
			break
		}
		sc, err := script.Parse("loss", Text(seed+n), script.Change{Without: without})
		if err != nil {
			return s, fmt.Errorf("seed %d: %w", seed+n, err)
		}
		s.add(play.Run(sc, play.Options{Seed: seed + n}))
		if progress != nil {
			progress(s.Worlds)
		}
	}
	return s, nil
}

func (s *Sum) add(r *play.Result) {
	still := stood(r.Events)
	s.Worlds++
	s.Still += still
	s.Worst = max(s.Worst, still)
	s.Grants += r.Facts.Int("grants")
	s.Twice += r.Facts.Int("twice")
	if r.Facts.Get("done") == "1/1" {
		s.Done++
	}
}

// stood is for how long the job stood still: what is more than a little from one
// chunk to the next, up to the end of the job or of the world.
func stood(events []world.Event) (still time.Duration) {
	last, end := time.Duration(0), until
	for _, e := range events {
		switch {
		case e.What == "done":
			end = e.T
		case e.What != "write":
			continue
		}
		still += max(0, e.T-last-slack)
		last = e.T
		if e.What == "done" {
			break
		}
	}
	if end == until {
		still += max(0, until-last-slack)
	}
	return still
}

// Text is the world of a seed: three workers on one job, whose work freezes, who
// are paused, and who die and start again.
func Text(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	fmt.Fprintf(&b, "# World %d of the measured losses.\nset until %s\n", seed, world.Seconds(until))
	b.WriteString("lock raft nodes=3 elections=no\nstore table chunks=10 rows=5000\n")
	names := []string{"A", "B", "C"}
	for i, name := range names {
		fmt.Fprintf(&b, "who %s worker raise-after=0.2 first=0.2 pace=1.5 again=1s beat-within=4s\nat %d %s start\n", name, i, name)
	}
	faults := []string{"freeze", "freeze", "pause", "crash"}
	for range 2 + r.IntN(3) {
		who, what, at := names[r.IntN(len(names))], faults[r.IntN(len(faults))], 1000+r.IntN(25_000)
		length := 3000 + r.IntN(57_000)
		if what == "crash" {
			fmt.Fprintf(&b, "at %dms %s crash\nat %dms %s restart\n", at, who, at+length, who)
			continue
		}
		fmt.Fprintf(&b, "at %dms %s %s %dms\n", at, who, what, length)
	}
	return b.String()
}
