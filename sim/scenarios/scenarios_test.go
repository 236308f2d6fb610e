package scenarios

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/render"
	"github.com/stint-dev/stint/sim/script"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts into the scenario files")

// TestScenariosShowTheirFigures holds the figures of every scenario, and its
// transcript line by line. A rewrite changes the transcript, never the figures:
// those stand in the scenario's own text. Review it as a diff.
func TestScenariosShowTheirFigures(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s, err := Load(name, script.Change{})
			if err != nil {
				t.Fatal(err)
			}
			r, variants := run(t, s)
			for i, v := range append([]*play.Result{r}, variants...) {
				for _, m := range v.Missing() {
					t.Errorf("%s: %s", what(s, i), m)
				}
			}
			got := render.Transcript(r, variants)
			if *rewrite && !t.Failed() {
				if err := os.WriteFile(name+".txt", []byte(s.File(got)), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != s.Want {
				t.Errorf("the transcript is another one; got:\n%s", got)
			}
		})
	}
}

// outcome is a scenario's run and those of its variants.
type outcome struct {
	run      *play.Result
	variants []*play.Result
}

// outcomes are made once: several tests look at them.
var outcomes = map[string]outcome{}

func run(t *testing.T, s *script.Script) (*play.Result, []*play.Result) {
	t.Helper()
	if o, ok := outcomes[s.Name]; ok {
		return o.run, o.variants
	}
	variants, err := play.Variants(s, play.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{play.Run(s, play.Options{}), variants}
	outcomes[s.Name] = o
	return o.run, o.variants
}

func what(s *script.Script, i int) string {
	if i == 0 {
		return "the run"
	}
	return fmt.Sprintf("the variant %s", s.Variants[i-1])
}

// TestEveryScenarioSaysWhatItShows: a title, what to notice, an end, and at
// least one figure or event that has to come out.
func TestEveryScenarioSaysWhatItShows(t *testing.T) {
	for _, name := range Names() {
		s, err := Load(name, script.Change{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Title == "" || s.Notice == "" || s.Duration("until") == 0 || len(s.Events)+len(s.Figures) == 0 {
			t.Errorf("%s: title %q, notice %q, until %v, %d events and %d figures", name, s.Title, s.Notice, s.Duration("until"), len(s.Events), len(s.Figures))
		}
	}
}

// TestEveryEventIsToldInWords: what happens in a scenario has a sentence, whoever
// looks at the details too.
func TestEveryEventIsToldInWords(t *testing.T) {
	untold := map[string]bool{}
	for _, name := range Names() {
		s, err := Load(name, script.Change{})
		if err != nil {
			t.Fatal(err)
		}
		r, variants := run(t, s)
		for _, one := range append(variants, r) {
			for _, e := range one.Events {
				if !render.Told(e.What) && !untold[e.What] {
					untold[e.What] = true
					t.Errorf("%s: there is no sentence for %q", name, e.What)
				}
			}
		}
	}
}

// TestEveryRuleIsShownOff: for each rule there is a scenario in which it is the
// only one that is off, beside the same scenario with it on, with an event or a
// figure that has to come out of it.
func TestEveryRuleIsShownOff(t *testing.T) {
	var shown protocol.Rules
	for _, name := range Names() {
		s, err := Load(name, script.Change{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range s.Variants {
			if off := v.Change.Without; len(off.Each()) == 1 && len(v.Events)+len(v.Figures) > 0 {
				shown |= off
			}
		}
	}
	if missing := protocol.AllRules &^ shown; missing != 0 {
		t.Errorf("no scenario shows what happens without %v", missing)
	}
}

// TestTheStoryHasItsEventsAndSnapshots: all 24 events are numbered in the run, in
// order, and the six snapshots are there.
func TestTheStoryHasItsEventsAndSnapshots(t *testing.T) {
	s, err := Load("story", script.Change{})
	if err != nil {
		t.Fatal(err)
	}
	r := play.Run(s, play.Options{})
	next, snapshots := 1, ""
	for _, e := range r.Events {
		switch n := r.Labels[e.N]; {
		case n == next:
			next++
		case n > next || n != 0 && n < next-1:
			t.Errorf("event %d comes where %d is due", n, next)
		}
		if e.What == "snapshot" {
			snapshots += e.Name
		}
	}
	if next != 25 || snapshots != "S1S2S3S4S5S6" {
		t.Errorf("%d events, snapshots %s", next-1, snapshots)
	}
}
