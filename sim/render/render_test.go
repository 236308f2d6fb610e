package render

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

const small = `# Small.
# Notice.
set until 25s
lock raft nodes=3 elections=no
store table chunks=10 rows=5000
who A worker raise-after=0.5 first=0.35 pace=2.9
who B worker raise-after=0.1 first=0.25 pace=5.85
at 0    A start
at 4    A pause 15s
at 13.5 B start
at 22   B crash
event 12 19.05 A write-refused
`

func run(t *testing.T, without protocol.Rules) *play.Result {
	t.Helper()
	s, err := script.Parse("small", small, script.Change{Without: without})
	if err != nil {
		t.Fatal(err)
	}
	return play.Run(s, play.Options{})
}

// TestLanesShowWhoHoldsSleepsAndDies: a column for each machine, and marks where
// a reader should look.
func TestLanesShowWhoHoldsSleepsAndDies(t *testing.T) {
	text := Lanes(run(t, 0), Style{ASCII: true})
	for _, want := range []string{
		"    time       A  B  n1 ",
		"   19.05 [12]  x  H  H   A     sends chunk 2 with 1: REFUSED: 1 < 3  [refused]",
		"    13.5       :  *  H   B     holds billing with token 3; stop time 21.5",
		"      22       |  *  H   B     dies",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "22.") && strings.Contains(line, "B ") {
			t.Errorf("the dead speak: %s", line)
		}
	}
}

func TestLinesFitTheTerminal(t *testing.T) {
	r := run(t, protocol.RuleFence)
	if text := Lanes(run(t, 0), Style{Width: 100}); strings.Count(text, "[refused]") != 1 {
		t.Errorf("one refusal is marked %d times", strings.Count(text, "[refused]"))
	}
	for _, width := range []int{60, 80, 120} {
		for _, line := range strings.Split(Lanes(r, Style{Width: width}), "\n") {
			if n := len([]rune(line)); n > width {
				t.Errorf("%d columns in %d: %s", n, width, line)
			}
		}
	}
	if colour := Lanes(r, Style{Colour: true}); !strings.Contains(colour, red) || strings.Count(colour, reset) < 2 {
		t.Error("a double charge is not red")
	}
}

// TestTheVerdictIsReadFromTheRun: the same sentences do not come out of a run in
// which something else happened.
func TestTheVerdictIsReadFromTheRun(t *testing.T) {
	good, bad := strings.ReplaceAll(Close(run(t, 0)), "\n", " "), strings.ReplaceAll(Close(run(t, protocol.RuleFence)), "\n", " ")
	for _, want := range []string{"At 19.05 the store refused A (1 < 3), because B had raised the fence at 13.6", "Verdict: 15000 invoices were charged, each once"} {
		if !strings.Contains(good, want) {
			t.Errorf("no %q in %s", want, good)
		}
		if strings.Contains(bad, want) {
			t.Errorf("%q in %s", want, bad)
		}
	}
	for _, want := range []string{"At 19.05 A charged chunk 2 again, which B had charged at 14.", "The rule fence was off", "HARM: 5000 invoices were charged twice"} {
		if !strings.Contains(bad, want) {
			t.Errorf("no %q in %s", want, bad)
		}
	}
}

// TestTheVerdictCountsOneAsOne: a figure of one has the singular, others not.
func TestTheVerdictCountsOneAsOne(t *testing.T) {
	for _, c := range []struct{ figure, one, more string }{
		{"twice", "1 invoice was charged twice", "2 invoices were charged twice"},
		{"swept-held", "1 claim was given back while it was held", "2 claims were given back while they were held"},
		{"lost", "1 payment is noted as made and never will be", "2 payments are noted as made and never will be"},
		{"torn", "1 reader read a state that never was", "2 readers read a state that never was"},
		{"charged", "1 invoice was charged, once", "2 invoices were charged, each once"},
		{"missing", "1 was not charged in this time", "2 were not charged in this time"},
	} {
		for n, want := range map[string]string{"1": c.one, "2": c.more} {
			got := Verdict(&play.Result{Facts: play.Facts{{Name: c.figure, Text: n}}})
			if got = strings.TrimPrefix(got, "Verdict: "); strings.TrimPrefix(got, "HARM: ") != want+"." {
				t.Errorf("%s %s: %q, not %q", c.figure, n, got, want)
			}
		}
	}
	chunk := play.Facts{{Name: "lost", Text: "1"}, {Name: "named", Text: "9"}}
	if got := Verdict(&play.Result{Facts: chunk}); got != "Verdict: HARM: 1 committed chunk is lost." {
		t.Error(got)
	}
}

func TestEveryRuleHasAMeaning(t *testing.T) {
	for _, rule := range protocol.AllRules.Each() {
		if Meaning(rule) == "" {
			t.Errorf("what is missing without %v?", rule)
		}
	}
}

func TestJSONLinesAreJSON(t *testing.T) {
	r := run(t, 0)
	lines := strings.Split(strings.TrimSpace(string(JSON(r))), "\n")
	if len(lines) != len(r.Events)+1 {
		t.Errorf("%d lines for %d events and the figures", len(lines), len(r.Events))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, `{"figures":{"charged":"15000"`) || !strings.Contains(last, `"verdict":"Verdict: `) {
		t.Errorf("the last line is %s", last)
	}
}

func TestACrowdIsOneLine(t *testing.T) {
	r := &play.Result{Script: &script.Script{}}
	for i := range 100 {
		r.Events = append(r.Events, world.Event{N: i + 1, T: time.Duration(i) * time.Second, Who: "n1", What: "renewed"})
	}
	r.Events = append(r.Events, world.Event{N: 101, T: 100 * time.Second, Who: "A", What: "crashes"})
	text := Lines(r)
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "(and 99 more of this kind until 99)") {
		t.Errorf("lines:\n%s", text)
	}
}

// TestTheHeadSaysWhatWasSet: what to notice is told of the file's own values.
func TestTheHeadSaysWhatWasSet(t *testing.T) {
	text := "# A title.\n# What to notice: nothing.\nset pause 15s\nlock raft\nwho A worker\nat 1 A pause $pause\n"
	for _, c := range []struct {
		change script.Change
		want   string
	}{
		{script.Change{}, ""},
		{
			script.Change{Set: []script.Value{{Name: "pause", Text: "5s"}, {Name: "delay", Text: "1ms"}}, Without: protocol.RuleFence},
			"\n\nWithout: fence.\n\nSet: pause=5s in place of 15s, delay=1ms.\n\nWhat to notice is said of the scenario without this change.",
		},
	} {
		s, err := script.Parse("x", text, c.change)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Head(s), "A title.\n\nWhat to notice: nothing."+c.want; got != want {
			t.Errorf("the head is\n%s\nand not\n%s", got, want)
		}
	}
}
