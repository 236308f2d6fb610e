package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// Transcript is what a scenario file keeps below its text: the lines of the run,
// the facts, the closing paragraph, and the variants beside them.
func Transcript(r *play.Result, variants []*play.Result) string {
	return Lines(r) + "\n" + Facts(r) + "\n" + Close(r) + Compare(r, variants)
}

// Facts lists what was counted.
func Facts(r *play.Result) string {
	var b strings.Builder
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "  %-10s %8s  %s\n", f.Name, f.Text, f.Means)
	}
	return b.String()
}

// Compare shows each variant beside the run: the events that it is about, the
// facts that came out differently, and its verdict.
func Compare(r *play.Result, variants []*play.Result) string {
	var b strings.Builder
	for i, v := range variants {
		fmt.Fprintf(&b, "\nThe same, %s:\n", r.Script.Variants[i])
		for _, e := range v.Events {
			if notable(v, e) {
				b.WriteString(strings.TrimRight(fmt.Sprintf("%8s %5s  %s  %s%s", clock(e.T), number(v, e), e.Who, Sentence(e), mark(e)), " ") + "\n")
			}
		}
		for _, f := range v.Facts {
			if was := r.Facts.Get(f.Name); was != f.Text {
				fmt.Fprintf(&b, "  %-10s %8s  (was %s)  %s\n", f.Name, f.Text, orNothing(was), f.Means)
			}
		}
		b.WriteString(fill(strings.Join(append(harms(v), Verdict(v)), " "), 80))
	}
	return b.String()
}

// notable tells whether a variant's event is shown: what its file names, and
// what a reader should see.
func notable(v *play.Result, e world.Event) bool {
	return !e.Detail && (e.Mark != "" || slices.Contains(v.Found, e.N))
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// Head is the scenario's title and what to notice, and what is switched off or
// set: what to notice tells of the scenario as it stands in its file.
func Head(s *script.Script) string {
	text := fill(s.Title, 80)
	if s.Notice != "" {
		text += "\n" + s.Notice + "\n"
	}
	if s.Without != 0 {
		text += "\nWithout: " + s.Without.String() + ".\n"
	}
	var set []string
	for _, was := range s.Was {
		one := was.Name + "=" + s.Setting(was.Name)
		if was.Text != "" {
			one += " in place of " + was.Text
		}
		set = append(set, one)
	}
	if len(set) > 0 {
		text += "\n" + fill("Set: "+strings.Join(set, ", ")+".", 80)
	}
	if s.Changed && s.Notice != "" {
		text += "\n" + fill("What to notice is said of the scenario without this change.", 80)
	}
	return strings.TrimRight(text, "\n")
}
