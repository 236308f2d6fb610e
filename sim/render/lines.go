package render

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/world"
)

// marks are what a reader should see first.
var marks = map[string]string{
	"refused": "[refused]", "overlap": "[OVERLAP]", "twice": "[TWICE]", "swept": "[SWEPT WHILE HELD]", "repeated": "[REPEATED TOKEN]",
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

// Lines is a run as plain lines: true time, number, who, what.
func Lines(r *play.Result) string {
	var b strings.Builder
	width := 0
	for _, e := range r.Events {
		width = max(width, len(e.Who))
	}
	for _, e := range r.Events {
		if !e.Detail {
			line := fmt.Sprintf("%8s %5s  %-*s  %s%s", world.Seconds(e.T), number(r, e), width, e.Who, Sentence(e), mark(e))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// JSON is a run as JSON lines.
func JSON(r *play.Result) []byte {
	var b []byte
	for _, e := range r.Events {
		b = append(e.AppendJSON(b), '\n')
	}
	return b
}
