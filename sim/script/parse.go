package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

// Bounds that keep a file of nonsense from asking for a world that never ends.
const (
	maxText  = 1 << 20
	maxLines = 5000
	maxTime  = 24 * time.Hour
)

// separator is the line between a scenario and its transcript.
const separator = "---\n"

// Change is what a caller replaces before the run.
type Change struct {
	Set     []Value
	Without Rules
}

// Parse reads a scenario, with changes. The error names the line and, for a
// value, what is allowed.
func Parse(name, text string, change Change) (*Script, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("scenario %s: %d bytes; at most %d are read", name, len(text), maxText)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // as editors on Windows, and git there, leave it
	head, want := divide(text)
	s := &Script{Name: name, Want: want, text: text, head: head, Changed: len(change.Set) > 0 || change.Without != 0}
	if err := s.split(head); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	if len(s.Lines) == 0 {
		return nil, fmt.Errorf("scenario %s: there is no line in it", name)
	}
	if err := s.settings(change.Set); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	for _, l := range s.Lines {
		if err := s.line(l.Fields); err != nil {
			return nil, fmt.Errorf("scenario %s, line %d: %q: %w", name, l.N, strings.Join(l.Fields, " "), err)
		}
	}
	if err := s.unused(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	s.Without |= change.Without
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(max(-1, min(1, a.At-b.At))) })
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	return s, nil
}

// divide cuts a text at its first line "---". A line that only ends so, as a
// comment may, is none.
func divide(text string) (head, want string) {
	if rest, ok := strings.CutPrefix(text, separator); ok {
		return "", rest
	}
	head, want, ok := strings.Cut(text, "\n"+separator)
	if ok || head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head, want
}

// Vary reads the scenario again, as one of its variants: the variant's events
// and figures stand in place of its own.
func (s *Script) Vary(v Variant) (*Script, error) {
	changed, err := Parse(s.Name, s.text, v.Change)
	if err != nil {
		return nil, err
	}
	changed.Events, changed.Figures, changed.Variants, changed.Changed = v.Events, v.Figures, nil, false
	return changed, nil
}

// split divides the text into comments and lines of fields.
func (s *Script) split(head string) error {
	var notice []string
	for n, line := range strings.Split(head, "\n") {
		if n >= maxLines {
			return fmt.Errorf("more than %d lines", maxLines)
		}
		line = strings.TrimSpace(line)
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			comment = strings.TrimSpace(comment)
			switch {
			case len(s.Lines) > 0: // a remark between the lines
			case s.Title == "":
				s.Title = comment
			default:
				notice = append(notice, comment)
			}
			continue
		}
		if fields := strings.Fields(line); len(fields) > 0 {
			s.Lines = append(s.Lines, Line{n + 1, fields})
		}
	}
	s.Notice = strings.TrimSpace(strings.Join(notice, "\n"))
	return nil
}

// settings reads the settings first: every other line may use them.
func (s *Script) settings(changes []Value) error {
	for _, l := range s.Lines {
		if l.Fields[0] != "set" {
			continue
		}
		if len(l.Fields) != 3 {
			return fmt.Errorf("line %d: a setting is written: set NAME VALUE", l.N)
		}
		if s.Setting(l.Fields[1]) != "" {
			return fmt.Errorf("line %d: %s is set twice", l.N, l.Fields[1])
		}
		if err := checkSetting(l.Fields[1], l.Fields[2]); err != nil {
			return fmt.Errorf("line %d: %w", l.N, err)
		}
		s.Settings = append(s.Settings, Value{l.Fields[1], l.Fields[2]})
	}
	for _, c := range changes {
		if err := s.change(c); err != nil {
			return err
		}
	}
	return s.checkTimes(s.Times().Length)
}

func (s *Script) line(f []string) error {
	for i, field := range f {
		text, err := s.expand(field)
		if err != nil {
			return err
		}
		f[i] = text
	}
	switch {
	case f[0] == "set":
		return nil
	case f[0] == "without" && len(f) > 1:
		for _, name := range f[1:] {
			r, err := protocol.ParseRule(name)
			if err != nil {
				return err
			}
			s.Without |= r
		}
		return nil
	case (f[0] == "lock" || f[0] == "store") && len(f) > 1:
		return s.part(f)
	case f[0] == "who" && len(f) > 2:
		return s.actor(f[1:])
	case f[0] == "link" && len(f) > 3:
		return s.link(f[1:])
	case f[0] == "at" && len(f) > 3:
		return s.step(f[1:])
	case f[0] == "event" && len(f) > 4:
		return s.event(f[1:])
	case f[0] == "figure" && len(f) == 3:
		return s.figure(Figure{f[1], f[2]})
	case f[0] == "also" && len(f) > 2:
		return s.also(f[1:])
	}
	return fmt.Errorf("not a line of a scenario; one begins with set, lock, store, who, link, without, at, event, figure or also")
}

// expand replaces $name. A minus before it stays: -$offset.
func (s *Script) expand(field string) (string, error) {
	before, name, ok := strings.Cut(field, "$")
	if !ok {
		return field, nil
	}
	text := s.Setting(name)
	if text == "" {
		return "", fmt.Errorf("there is no setting %q", name)
	}
	s.used = append(s.used, name)
	if strings.HasSuffix(before, "-") && strings.HasPrefix(text, "-") {
		return before[:len(before)-1] + text[1:], nil
	}
	return before + text, nil
}

// unused finds a setting that changes nothing: whoever sets it would be misled.
func (s *Script) unused() error {
	for _, v := range s.Settings {
		if !slices.Contains(everywhere, v.Name) && !slices.Contains(s.used, v.Name) {
			return fmt.Errorf("the setting %s is never used: a line has to say $%s", v.Name, v.Name)
		}
	}
	return nil
}

// ParseTime reads "4", "19.05" (seconds), "500ms" or "-3s".
func ParseTime(text string) (time.Duration, error) {
	unit := text
	if text != "" && strings.Trim(text, "+-.0123456789") == "" {
		unit += "s"
	}
	d, err := time.ParseDuration(unit)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time: write seconds (19.05) or a unit (500ms)", text)
	}
	if d > maxTime || d < -maxTime {
		return 0, fmt.Errorf("%q is outside -%v to %v", text, maxTime, maxTime)
	}
	return d, nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1_000_000_000 || n > 1_000_000_000 {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}
