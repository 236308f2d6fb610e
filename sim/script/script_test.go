package script

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

const story = `# A freezes with a chunk in its buffer.
#
# What to notice: A never learns it from a clock.
set ttl 10s
set margin 2s
set pause 15s
set offset -3s
lock raft nodes=3
store table chunks=10 rows=5000
who A worker raise-after=500ms wall=$offset
who B worker raise-after=0.1
link A n1 delay=20ms
without fence equal
at 4 A pause $pause
at 0 A start
at 16 B wall -$offset
at 2 net split n1,A n2,n3
event 12 19.05 A write-refused token=7 fence=12
figure twice 0
also without nonce set pause=20s
event 0 24.05 A write-refused
figure twice 5000
---
transcript
`

func parse(t *testing.T, change Change) *Script {
	t.Helper()
	s, err := Parse("story", story, change)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAScenarioIsReadAsItIsWritten(t *testing.T) {
	s := parse(t, Change{})
	switch {
	case s.Title != "A freezes with a chunk in its buffer.", s.Notice != "What to notice: A never learns it from a clock.":
		t.Errorf("title %q, notice %q", s.Title, s.Notice)
	case s.Times() != protocol.Times{Length: 10 * time.Second, Margin: 2 * time.Second}.WithDefaults():
		t.Errorf("times %+v", s.Times())
	case s.Lock.Int("nodes", 0) != 3, s.Store.Kind != "table":
		t.Errorf("lock %+v, store %+v", s.Lock, s.Store)
	case s.Actor("A").Duration("raise-after", 0) != 500*time.Millisecond, s.Actor("B").Duration("raise-after", 0) != 100*time.Millisecond:
		t.Errorf("actors %+v", s.Actors)
	case s.Without != protocol.RuleFence|protocol.RuleEqual:
		t.Errorf("without %v", s.Without)
	case s.Steps[0].At != 0, s.Steps[2].Args[0] != "15s", s.Steps[3].Args[0] != "3s":
		t.Errorf("steps %+v: in the order of time, with the settings' values", s.Steps)
	case s.Events[0].N != 12, s.Events[0].At != 19050*time.Millisecond:
		t.Errorf("events %+v", s.Events)
	case len(s.Variants) != 1, s.Variants[0].String() != "without nonce, pause=20s", s.Variants[0].Figures[0].Text != "5000", s.Figures[0].Text != "0":
		t.Errorf("variants %+v", s.Variants)
	case s.Want != "transcript\n", s.File("x\n") != strings.Replace(story, "transcript\n", "x\n", 1):
		t.Errorf("want %q", s.Want)
	}
}

// TestOnlyALineOfItsOwnEndsAScenario: what a comment ends with cuts nothing off,
// and a file without a line is no scenario.
func TestOnlyALineOfItsOwnEndsAScenario(t *testing.T) {
	s, err := Parse("x", "# A title ---\nwho A worker\nat 1 A start", Change{})
	if err != nil || len(s.Steps) != 1 || s.Want != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Parse("x", "who A worker\n---\nno line", Change{}); err != nil || s.Want != "no line" || len(s.Lines) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"", "\n", "# A title.\n", "---\nwho A worker\n"} {
		if _, err := Parse("x", text, Change{}); err == nil || !strings.Contains(err.Error(), "no line in it") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Git on Windows checks texts out with CRLF, and editors there write it.
func TestLineEndsOfWindowsChangeNothing(t *testing.T) {
	unix := parse(t, Change{})
	windows, err := Parse("story", strings.ReplaceAll(story, "\n", "\r\n"), Change{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(unix, windows) {
		t.Errorf("with LF it is\n%+v\nand with CRLF\n%+v", unix, windows)
	}
}

func TestASettingIsReplacedEverywhere(t *testing.T) {
	sets, err := ParseSets([]string{"pause=5s,offset=1", "delay=20ms"})
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, Change{Set: sets, Without: protocol.RuleNonce})
	if s.Steps[2].Args[0] != "5s" || s.Actor("A").Duration("wall", 0) != time.Second || s.Steps[3].Args[0] != "-1" {
		t.Errorf("steps %+v, A %+v", s.Steps, s.Actor("A"))
	}
	if !s.Changed || !s.Without.Has(protocol.RuleNonce|protocol.RuleFence) || s.Duration("delay") != 20*time.Millisecond {
		t.Errorf("changed %v without %v", s.Changed, s.Without)
	}
	if got, want := s.Command(3, sets, protocol.RuleNonce), "stint sim run story --seed 3 --set pause=5s,offset=1,delay=20ms --without nonce"; got != want {
		t.Errorf("command %q", got)
	}
}

// TestNonsenseIsRefusedWithWhatIsAllowed: an error names the range, or what
// there is.
func TestNonsenseIsRefusedWithWhatIsAllowed(t *testing.T) {
	for set, want := range map[string]string{
		"ttl=-10s":            "allowed are 10ms to 1h0m0s",
		"margin=-1s":          "allowed are 1ms to 1h0m0s",
		"margin=0":            "allowed are 1ms to 1h0m0s (from the stop time to the end of the lease; less than ttl; for none at all leave the rule margin out",
		"wait=0s":             "leave the rule handover-wait out",
		"margin=12s":          "margin may be 22ms to 5.499s",
		"renew=9s":            "give all of them",
		"ttl=abc":             "is not a time",
		"ttl=0":               "allowed are 10ms",
		"ttl=99999h":          "is outside",
		"ttl":                 "write NAME=VALUE",
		"=3s":                 "write NAME=VALUE",
		"colour=blue":         `there is no setting "colour"; there are ttl, margin`,
		"bump=3":              `does not use "bump"; it uses delay`,
		"pause=1s,pause=2s":   "given twice",
		"loss=1.5":            "not a whole number",
		"pause=99999999999ns": "",
	} {
		sets, err := ParseSets([]string{set})
		if err == nil {
			_, err = Parse("story", story, Change{Set: sets})
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", set, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v; want %q in it", set, err, want)
		}
	}
	for line, want := range map[string]string{
		"nonsense":                     "one begins with",
		"set lag 3s":                   "never used",
		"set pause 3s":                 "set twice",
		"set pause":                    "set NAME VALUE",
		"lock raft":                    "a lock already",
		"who A worker":                 "is taken",
		"who lock worker":              "is taken",
		"who C dancer":                 "there are candidate, client",
		"who C worker colour=blue":     "not one of its parameters",
		"who C worker pace=1s pace=2s": "given twice",
		"who 1C worker x":              "is not a name",
		"at -1 A start":                "before time zero",
		"at 1 Z start":                 "nobody is called Z",
		"at 1 A dance":                 "there are cancel, check",
		"at 1 A pause":                 "takes 1 arguments",
		"at 1 A pause $colour":         "no setting",
		"at 1 net split n1 n9":         "nobody is called",
		"who C observer":               "needs another lock than raft; it goes with item",
		"who C taker order=x":          "names joined by hyphens",
		"at 1 lock failover":           "cannot failover; it can use",
		"also beyond measure":          "a variant is written",
		"also without set":             "changes something",
		"also set colour=blue":         "no setting",
		"without gravity":              "there is no rule",
		"event x 1 A start":            "an event is written",
		"event 1 1 A start token=x":    "not a whole number",
		"link A Z delay=1s":            "not two machines",
		"who C worker wall=2h":         "allowed are",
		"who C worker ttl=1s":          "not one of its parameters",
		"at 99999999999999999 A start": "not a time",
	} {
		if _, err := Parse("story", strings.Replace(story, "---", line+"\n---", 1), Change{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", line, err, want)
		}
	}
}

// FuzzParse: no text makes the parser panic, and what it accepts it accepts
// again in the same way.
func FuzzParse(f *testing.F) {
	f.Add(story, "pause=1s")
	f.Add("set ttl 10s\nwho A worker\nat 1 A pause $ttl\n---\n", "ttl=3s")
	f.Add("# x\nwho A worker wall=--3s\nat 1e9 A wall -$x", "")
	f.Fuzz(func(t *testing.T, text, set string) {
		sets, err := ParseSets([]string{set})
		if err != nil {
			sets = nil
		}
		s, err := Parse("fuzz", text, Change{Set: sets})
		if err != nil {
			return
		}
		again, err := Parse("fuzz", s.File(s.Want), Change{Set: sets})
		if err != nil {
			t.Fatalf("accepted once: %v", err)
		}
		if len(again.Steps) != len(s.Steps) || again.Title != s.Title || again.Without != s.Without {
			t.Fatalf("read in two ways:\n%+v\n%+v", s, again)
		}
		if err := s.Times().Check(); err != nil {
			t.Fatalf("unsafe times: %v", err)
		}
		for _, step := range s.Steps {
			if step.At < 0 || step.At > maxTime {
				t.Fatalf("a step at %v", step.At)
			}
		}
	})
}

// TestAnActorsOwnValuesAreChecked: those that only make sense beside others.
func TestAnActorsOwnValuesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"lock item\nwho D observer ttl=20ms\n":                 "margin 2s: it has to lie between zero and the lease length 20ms",
		"lock item\nwho D observer ttl=0\n":                    "allowed are 10ms to 1h0m0s",
		"lock redlock\nwho c client masters=1231\n":            "digits from 1 to 5, each once",
		"lock redlock\nwho c client masters=126\n":             "digits from 1 to 5, each once",
		"lock flag\nstore table\nwho R writer wait=0\n":        "allowed are 1ms",
		"lock raft\nwho D candidate count=10001\n":             "allowed are 1 to 10000",
		"lock flag\nstore table\nwho R writer\nat 1 R check\n": "there are ",
	} {
		if _, err := Parse("x", text, Change{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q in it", text, err, want)
		}
	}
}
