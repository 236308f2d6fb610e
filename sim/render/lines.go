package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/world"
)

// marks are what a reader should see first.
var marks = map[string]string{
	"refused": "[refused]", "overlap": "[OVERLAP]", "twice": "[TWICE]", "swept": "[SWEPT WHILE HELD]", "repeated": "[REPEATED TOKEN]", "torn": "[TORN]", "lost": "[LOST]",
}

func mark(e world.Event) string {
	if m := marks[e.Mark]; m != "" {
		return "  " + m
	}
	return ""
}

// number is the event's own in the story, in brackets.
func number(r *play.Result, e world.Event) string {
	if n := r.Labels[e.N]; n > 0 {
		return fmt.Sprintf("[%d]", n)
	}
	return ""
}

// shown is an event that is shown, and how many of its kind come right after it.
type shown struct {
	world.Event
	more  int
	until time.Duration
}

// few is how many events of one kind are shown one by one. Of a crowd's, one
// stands for all.
const few = 4

// condense leaves out details, and joins what one machine does many times in a
// row.
func condense(r *play.Result) []shown {
	var list []shown
	for i := 0; i < len(r.Events); i++ {
		e := r.Events[i]
		if e.Detail {
			continue
		}
		run := alike(r, i)
		if len(run) <= few {
			list = append(list, shown{Event: e})
			continue
		}
		last := run[len(run)-1]
		list = append(list, shown{e, len(run) - 1, r.Events[last].T})
		i = last
	}
	return list
}

// alike lists the events from i on that are of the same kind, with nothing but
// details in between.
func alike(r *play.Result, i int) []int {
	run := []int{i}
	first := r.Events[i]
	for j := i + 1; j < len(r.Events) && r.Labels[first.N] == 0; j++ {
		e := r.Events[j]
		if e.Detail {
			continue
		}
		if e.Who != first.Who || e.What != first.What || e.Mark != first.Mark || r.Labels[e.N] != 0 || first.What == "write" {
			break
		}
		run = append(run, j)
	}
	return run
}

// text is the event in words.
func (s shown) text() string {
	text := Sentence(s.Event) + mark(s.Event)
	if s.more > 0 {
		text += fmt.Sprintf(" (and %d more of this kind until %s)", s.more, clock(s.until))
	}
	return text
}

// Lines is a run as plain lines: true time, number, who, what.
func Lines(r *play.Result) string {
	var b strings.Builder
	width := 0
	for _, e := range r.Events {
		width = max(width, len(e.Who))
	}
	for _, e := range condense(r) {
		line := fmt.Sprintf("%8s %5s  %-*s  %s", clock(e.T), number(r, e.Event), width, e.Who, e.text())
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// JSON is a run as JSON lines: every event, and at the end a line of figures.
func JSON(r *play.Result) []byte {
	var b []byte
	for _, e := range r.Events {
		b = append(e.AppendJSON(b), '\n')
	}
	return append(append(b, figures(r)...), '\n')
}

// figures is the last line of the JSON form.
func figures(r *play.Result) []byte {
	f := struct {
		Figures map[string]string `json:"figures"`
		Verdict string            `json:"verdict"`
	}{map[string]string{}, Verdict(r)}
	for _, fact := range r.Facts {
		f.Figures[fact.Name] = fact.Text
	}
	b, err := json.Marshal(f) // sorts the keys
	if err != nil {
		panic(err) // texts only
	}
	return b
}
