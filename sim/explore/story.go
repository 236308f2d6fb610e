package explore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stint-dev/stint/sim/render"
	"github.com/stint-dev/stint/sim/world"
)

// Story tells a run in lines: true time, who, what.
func Story(r Result) string {
	var b strings.Builder
	for _, e := range r.Events {
		mark := " "
		if e.Mark != "" {
			mark = "!"
		}
		fmt.Fprintf(&b, "%10s %s %-6s %s\n", world.Seconds(e.T.Round(1000)), mark, e.Who, render.Sentence(e))
	}
	if r.Broken != nil {
		fmt.Fprintf(&b, "\nBROKEN: %v\n", r.Broken)
	} else {
		fmt.Fprintf(&b, "\nNo promise is broken; the work was done at %s.\n", world.Seconds(r.Done))
	}
	return b.String()
}

// File is a plan as it is saved: what it shows, the plan, and its story.
func File(p Plan) string {
	r := Run(p, true)
	var b strings.Builder
	if r.Broken != nil {
		fmt.Fprintf(&b, "# Found by stint sim explore: %s.\n# %s\n", r.Broken.Promise, r.Broken.Why)
	} else {
		b.WriteString("# A random world of stint sim explore; it breaks nothing.\n")
	}
	return b.String() + p.Text() + "---\n" + Story(r)
}

var notWord = regexp.MustCompile(`[^a-z]+`)

// FileName is a name for a plan that breaks a promise.
func FileName(p Plan, b Broken) string {
	rules := "all-rules"
	if p.Without != 0 {
		rules = "no-" + strings.ReplaceAll(p.Without.String(), ",", "-")
	}
	what := strings.Trim(notWord.ReplaceAllString(strings.ToLower(b.Promise), "-"), "-")
	return fmt.Sprintf("found-%s-%d-%s.txt", rules, p.Seed, what)
}
