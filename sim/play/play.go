// Package play builds the world of a scenario, lets it run, and says what came
// of it: the log, and facts that are counted, not told.
package play

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// Options are those of one run.
type Options struct {
	Seed   uint64
	Watch  func(world.Event) // every event, as it happens
	Detail bool              // events that only a debugging reader wants, too
}

// Result is what came of a run.
type Result struct {
	Script *script.Script
	Events []world.Event
	Facts  Facts
	Labels map[int]int   // by event number: its number in the story
	Found  []int         // events that the scenario names
	Took   time.Duration // simulated
	Steps  uint64
}

// Run lets a scenario run to its end.
func Run(s *script.Script, o Options) *Result {
	st := build(s, o)
	if o.Watch != nil {
		st.w.Log.Watch(o.Watch)
	}
	until := s.Duration("until")
	st.w.Run(until)
	r := &Result{Script: s, Events: st.w.Log.Events(), Took: st.w.Now(), Steps: st.w.Steps()}
	r.Facts = st.facts(r.Events)
	if _, none := st.Lock.(*actor.NoLock); !none {
		beliefs(r.Events).mark(r.Events)
	}
	r.label()
	return r
}

// Variants runs the scenario's variants.
func Variants(s *script.Script, o Options) ([]*Result, error) {
	var all []*Result
	for _, v := range s.Variants {
		changed, err := s.Vary(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		all = append(all, Run(changed, o))
	}
	return all, nil
}

// label finds the events that the scenario names.
func (r *Result) label() {
	r.Labels = map[int]int{}
	for _, x := range r.Script.Events {
		i := find(x, r.Events)
		if i < 0 {
			continue
		}
		r.Found = append(r.Found, r.Events[i].N)
		if x.N > 0 {
			r.Labels[r.Events[i].N] = x.N
		}
	}
}

func find(x script.Expect, events []world.Event) int {
	return slices.IndexFunc(events, func(e world.Event) bool { return matches(x, e) })
}

func matches(x script.Expect, e world.Event) bool {
	if x.At != e.T || x.Who != e.Who || x.What != e.What {
		return false
	}
	for _, f := range x.Fields {
		if Field(e, f.Name) != canonical(f) {
			return false
		}
	}
	return true
}

// canonical is an expected value as Field writes it.
func canonical(f script.Value) string {
	switch f.Name {
	case "deadline", "stop", "until", "clock":
		if d, err := script.ParseTime(f.Text); err == nil {
			return world.Seconds(d)
		}
	}
	return f.Text
}

// Field is a field of an event, as a scenario writes it.
func Field(e world.Event, name string) string {
	number := func(n uint64) string { return fmt.Sprint(n) }
	switch name {
	case "token":
		return number(e.Token)
	case "fence":
		return number(e.Fence)
	case "rev":
		return number(e.Rev)
	case "term":
		return number(e.Term)
	case "epoch":
		return number(e.Epoch)
	case "chunk":
		return fmt.Sprint(e.Chunk)
	case "rows":
		return fmt.Sprint(e.Rows)
	case "count":
		return fmt.Sprint(e.Count)
	case "deadline":
		return world.Seconds(e.Deadline)
	case "stop":
		return world.Seconds(e.Stop)
	case "until":
		return world.Seconds(e.Until)
	case "clock":
		return world.Seconds(e.Clock)
	case "name":
		return e.Name
	case "state":
		return e.State
	case "etag":
		return e.ETag
	case "peer":
		return e.Peer
	case "mark":
		return e.Mark
	}
	return ""
}

// Missing lists the expected events and figures that did not come out.
func (r *Result) Missing() []string {
	var missing []string
	for _, x := range r.Script.Events {
		if find(x, r.Events) < 0 {
			missing = append(missing, fmt.Sprintf("event %d: at %s %s %s%s; %s", x.N, world.Seconds(x.At), x.Who, x.What, fields(x.Fields), near(x, r.Events)))
		}
	}
	for _, f := range r.Script.Figures {
		if got := r.Facts.Get(f.Name); got != f.Text {
			missing = append(missing, fmt.Sprintf("figure %s is %q, it has to be %q", f.Name, got, f.Text))
		}
	}
	return missing
}

func fields(vs []script.Value) string {
	var b strings.Builder
	for _, v := range vs {
		fmt.Fprintf(&b, " %s=%s", v.Name, v.Text)
	}
	return b.String()
}

// near shows what the same one did at that time, for an error.
func near(x script.Expect, events []world.Event) string {
	var same []string
	for _, e := range events {
		if e.Who == x.Who && e.What == x.What {
			same = append(same, string(e.AppendJSON(nil)))
		}
	}
	if len(same) == 0 {
		return "there is none of that kind"
	}
	return "there are " + strings.Join(same[:min(4, len(same))], " ")
}
