package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/world"
)

// Close is the closing paragraph: what happened, why, and the verdict, all of it
// read from the run.
func Close(r *play.Result) string {
	var s []string
	s = append(s, grants(r)...)
	s = append(s, turns(r)...)
	s = append(s, harms(r)...)
	if off := r.Script.Without; off != 0 {
		for _, rule := range off.Each() {
			s = append(s, fmt.Sprintf("The rule %s was off: then %s.", rule, meaning[rule]))
		}
	}
	s = append(s, Verdict(r))
	return fill(strings.Join(s, " "), 80)
}

// grants tells who was granted what.
func grants(r *play.Result) []string {
	var parts []string
	for _, e := range r.Events {
		if e.What == "granted" && !e.Detail {
			part := e.Who
			if e.Token != 0 {
				part += fmt.Sprintf(" with token %d", e.Token)
			}
			parts = append(parts, part+" at "+clock(e.T))
		}
	}
	switch {
	case len(parts) == 0:
		return nil
	case len(parts) > 6:
		return []string{fmt.Sprintf("There were %d grants.", len(parts))}
	}
	return []string{"The lease was granted to " + join(parts) + "."}
}

// turns are the refusals, each with what refused it.
func turns(r *play.Result) []string {
	var s []string
	for i, e := range r.Events {
		if e.Mark != "refused" || len(s) >= 3 {
			continue
		}
		by := r.Events[:i]
		j := lastIndex(by, func(b world.Event) bool { return b.What == "raised" && b.Name == e.Name && b.Fence == e.Fence })
		text := fmt.Sprintf("At %s the store refused %s (%s)", clock(e.T), e.Who, e.Why)
		if j >= 0 && by[j].Who != e.Who {
			text += fmt.Sprintf(", because %s had raised the fence at %s", by[j].Who, clock(by[j].T))
		}
		s = append(s, text+"; nothing was changed.")
	}
	if n := r.Facts.Int("refused"); n > len(s) {
		s = append(s, "In all, "+counted(n, "request was", "requests were")+" refused.")
	}
	return s
}

func lastIndex(events []world.Event, ok func(world.Event) bool) int {
	for i := len(events) - 1; i >= 0; i-- {
		if ok(events[i]) {
			return i
		}
	}
	return -1
}

// harms are what must not happen.
func harms(r *play.Result) []string {
	var s []string
	for i, e := range r.Events {
		switch e.Mark {
		case "twice":
			text := fmt.Sprintf("At %s %s charged chunk %d again", clock(e.T), e.Who, e.Chunk)
			if j := slices.IndexFunc(r.Events[:i], func(b world.Event) bool { return b.What == "write" && b.Name == e.Name && b.Chunk == e.Chunk }); j >= 0 {
				text += fmt.Sprintf(", which %s had charged at %s", r.Events[j].Who, clock(r.Events[j].T))
			}
			s = append(s, text+".")
		case "overlap":
			s = append(s, fmt.Sprintf("At %s %s was let in beside another: %s.", clock(e.T), e.Who, e.Why))
		case "repeated":
			s = append(s, fmt.Sprintf("At %s %s got a token that had been handed out before: %s.", clock(e.T), e.Who, e.Why))
		case "lost":
			s = append(s, fmt.Sprintf("At %s %s took out of the manifest what was committed: %s.", clock(e.T), e.Who, e.Why))
		case "torn":
			s = append(s, fmt.Sprintf("At %s %s saw two versions: %s.", clock(e.T), e.Who, e.Why))
		case "swept":
			s = append(s, fmt.Sprintf("At %s the claim of %s was given back although it was held.", clock(e.T), e.Name))
		}
	}
	if len(s) > 4 {
		s = append(s[:3], fmt.Sprintf("This happened %d times.", len(s)))
	}
	return s
}

// Verdict is one sentence.
func Verdict(r *play.Result) string {
	f := r.Facts
	var bad, good []string
	if n := f.Int("twice"); n > 0 {
		bad = append(bad, counted(n, "invoice was", "invoices were")+" charged twice")
	}
	if n := f.Int("swept-held"); n > 0 {
		bad = append(bad, counted(n, "claim was given back while it was held", "claims were given back while they were held"))
	}
	if o := f.Get("overlap"); o != "" && o != "0" {
		bad = append(bad, "two believed for "+o+" s that they hold one lease")
	}
	if strings.HasPrefix(f.Get("tokens"), "repeat") {
		bad = append(bad, "a token was handed out again, or a lower one after it")
	}
	if f.Get("epochs") == "fall" {
		bad = append(bad, "a leader has a lower epoch than the one before it, and every fence that the other has raised refuses it")
	}
	if n := f.Int("lost"); n > 0 && f.Get("named") != "" {
		bad = append(bad, counted(n, "committed chunk is", "committed chunks are")+" lost")
	} else if n > 0 {
		bad = append(bad, counted(n, "payment is", "payments are")+" noted as made and never will be")
	}
	if n := f.Int("torn"); n > 0 {
		bad = append(bad, counted(n, "reader", "readers")+" read a state that never was")
	}
	if n := f.Int("at-once"); n > 1 {
		bad = append(bad, fmt.Sprintf("the work of %d terms ran at once in one process", n))
	}
	if f.Get("charged") != "" && f.Int("twice") == 0 && f.Int("charged") > 0 {
		good = append(good, counted(f.Int("charged"), "invoice was charged, once", "invoices were charged, each once"))
	}
	switch n := f.Int("wakeups"); {
	case n == 1:
		good = append(good, "one candidate was woken")
	case n > 1:
		good = append(good, fmt.Sprintf("%d candidates were woken", n))
	}
	if n := f.Int("missing"); n > 0 {
		good = append(good, counted(n, "was", "were")+" not charged in this time")
	}
	if w := f.Get("waiting"); w != "" {
		good = append(good, "somebody has waited for "+w+" s, and waits still")
	}
	if g := f.Get("gap"); g != "" {
		good = append(good, "between two holders there was a gap of at least "+g+" s")
	}
	switch {
	case bad != nil:
		return "Verdict: HARM: " + join(bad) + "."
	case good != nil:
		return "Verdict: " + join(good) + "."
	}
	return "Verdict: no harm was done."
}

// meaning says what is missing without each rule.
var meaning = map[protocol.Rules]string{
	protocol.RuleFence:           "the store lets in every write, whatever its token",
	protocol.RuleEqual:           "the store refuses an equal token, and so the holder's own second write",
	protocol.RuleRaiseFirst:      "a new holder reads the row before it raises the fence, and works from what it has read",
	protocol.RuleMargin:          "a holder stops only when its lease ends, with nothing left for clocks that differ in rate",
	protocol.RuleMonotonic:       "a holder times its lease on its wall clock, which can be set back",
	protocol.RuleSentAt:          "a holder counts its lease from the answer, although the lock service counts from earlier",
	protocol.RuleConditional:     "a release deletes the key whoever it belongs to by then",
	protocol.RuleSecondSighting:  "a sweeper gives back what it sees for the first time",
	protocol.RuleExactOwner:      "a sweeper's write does not depend on the owner that it has seen",
	protocol.RuleMarkerWithRaise: "the claim's marker is a write of its own, after the raise",
	protocol.RuleClockFree:       "a claimant compares its wall clock with a time that another machine's clock has written",
	protocol.RuleBump:            "a restored lock service goes on counting where the backup stood",
	protocol.RuleKeepToken:       "a release deletes the item, and the counter with it",
	protocol.RulePredecessor:     "every candidate watches the leader's key",
	protocol.RuleHandoverWait:    "a new writer does not wait out the old one's lease",
	protocol.RuleFullLength:      "a new leader does not restart the leases at their full length",
	protocol.RuleBeat:            "the heartbeats say nothing of the work",
	protocol.RuleNonce:           "the fence compares numbers only, so two grants with one number are the same to it",
	protocol.RuleSequence:        "the store does not count a holder's transactions, so a repeated one is carried out again",
	protocol.RuleFloor:           "a grant out of order leaves no floor for those who were passed",
	protocol.RuleClearCheckpoint: "a renewal leaves an older checkpoint in the log",
}

// Meaning says what is missing without a rule.
func Meaning(rule protocol.Rules) string { return meaning[rule] }

// counted is a count and what is counted, with its verb.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func join(parts []string) string {
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return strings.Join(parts, "")
}

// fill breaks a paragraph into lines.
func fill(text string, width int) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		l := len([]rune(word))
		if n > 0 && n+1+l > width {
			b.WriteString("\n")
			n = 0
		} else if n > 0 {
			b.WriteString(" ")
			n++
		}
		b.WriteString(word)
		n += l
	}
	return b.String() + "\n"
}
