package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/world"
)

// Style says how lanes are drawn.
type Style struct {
	Width  int  // of the terminal; zero: no limit
	Colour bool //
	ASCII  bool // no drawing characters
}

// lane is one machine's column.
type lane struct {
	name   string
	paused bool
	down   bool
	holds  int // a lease, as far as it knows, or the lead
}

// symbols are the drawing characters of a lane.
type symbols struct{ idle, holds, paused, down, event, refused, alarm string }

var (
	drawn = symbols{"│", "┃", "┆", " ", "●", "✗", "‼"}
	ascii = symbols{"|", "H", ":", " ", "*", "x", "!"}
)

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	reset  = "\x1b[0m"
)

// Lanes is a run with a lane for each machine: true time on the left, a mark in
// the lane of whom the event is, and the event in words on the right. A thick
// lane holds a lease as far as it knows, a dotted one is paused, an empty one is
// down.
func Lanes(r *play.Result, s Style) string {
	lanes := lanesOf(r)
	sym := drawn
	if s.ASCII {
		sym = ascii
	}
	var b strings.Builder
	b.WriteString(s.paint(faint, header(lanes)) + "\n")
	for _, e := range condense(r) {
		i := slices.IndexFunc(lanes, func(l lane) bool { return l.name == e.Who })
		if i >= 0 {
			lanes[i].follow(e.Event)
		}
		left := fmt.Sprintf("%8s %4s  ", clock(e.T), number(r, e.Event))
		var mid strings.Builder
		w := laneWidth(lanes)
		for j, l := range lanes {
			c := l.draw(sym)
			if j == i {
				c = sym.of(e.Event)
			}
			mid.WriteString(c + strings.Repeat(" ", w-1))
		}
		text := fmt.Sprintf(" %-*s %s", nameWidth(lanes), e.Who, e.text())
		b.WriteString(s.line(left, mid.String(), len(lanes)*w, text, e.Event))
	}
	return b.String()
}

// lanesOf are those who take part, as the scenario names them, and then the
// nodes of the lock service.
func lanesOf(r *play.Result) []lane {
	var lanes []lane
	for _, a := range r.Script.Actors {
		lanes = append(lanes, lane{name: a.Name})
	}
	for _, e := range r.Events {
		known := e.Who == "world" || e.Who == "net" || slices.ContainsFunc(lanes, func(l lane) bool { return l.name == e.Who })
		if !e.Detail && !known {
			lanes = append(lanes, lane{name: e.Who})
		}
	}
	return lanes
}

func nameWidth(lanes []lane) int {
	w := 5 // "world"
	for _, l := range lanes {
		w = max(w, len(l.name))
	}
	return w
}

// header names the lanes, by their first letters.
func header(lanes []lane) string {
	w := laneWidth(lanes)
	top := fmt.Sprintf("%8s %4s  ", "time", "")
	for _, l := range lanes {
		top += fmt.Sprintf("%-*s", w, l.name[:min(len(l.name), w-1)])
	}
	return top
}

// laneWidth is that of a lane, with the space after it.
func laneWidth(lanes []lane) int {
	w := 1
	for _, l := range lanes {
		w = max(w, min(3, len(l.name)))
	}
	return w + 1
}

func (l *lane) follow(e world.Event) {
	switch e.What {
	case "granted", "leads":
		l.holds = 1
	case "ended", "released", "release-refused", "stops-writing", "steps-down":
		l.holds = 0
	case "pauses", "suspends":
		l.paused = true
	case "wakes":
		l.paused = false
	case "crashes":
		l.down, l.paused, l.holds = true, false, 0
	case "restarts":
		l.down = false
	}
}

func (l lane) draw(s symbols) string {
	switch {
	case l.down:
		return s.down
	case l.paused:
		return s.paused
	case l.holds > 0:
		return s.holds
	}
	return s.idle
}

func (s symbols) of(e world.Event) string {
	switch {
	case e.Mark == "refused":
		return s.refused
	case e.Mark != "":
		return s.alarm
	}
	return s.event
}

func (s Style) paint(code, text string) string {
	if !s.Colour || code == "" {
		return text
	}
	return code + text + reset
}

// line joins the parts of one event; text that does not fit goes on below,
// beside the lanes.
func (s Style) line(left, mid string, midWidth int, text string, e world.Event) string {
	code := ""
	switch {
	case e.Mark == "refused":
		code = yellow
	case e.Mark != "":
		code = red
	case e.What == "snapshot":
		code = faint
	}
	room := s.Width - len(left) - midWidth
	parts := []string{text}
	if s.Width > 0 && room > 20 {
		parts = wrap(text, room)
	}
	var b strings.Builder
	b.WriteString(left + mid + s.paint(code, parts[0]) + "\n")
	for _, p := range parts[1:] {
		b.WriteString(strings.Repeat(" ", len(left)+midWidth+7) + s.paint(code, p) + "\n")
	}
	return b.String()
}

// wrap breaks a text into lines of a width; those after the first are indented
// by the caller by seven.
func wrap(text string, width int) []string {
	var lines []string
	line, room := "", width
	for i, word := range strings.SplitAfter(text, " ") {
		if len([]rune(line))+len([]rune(strings.TrimRight(word, " "))) > room && strings.TrimSpace(line) != "" && i > 0 {
			lines = append(lines, strings.TrimRight(line, " "))
			line, room = "", width-7
		}
		line += word
	}
	return append(lines, strings.TrimRight(line, " "))
}
