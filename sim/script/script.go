// Package script reads the files that simulations are written in.
//
// A scenario is a text that a person can read: comments that say what it shows,
// settings, who takes part, what happens when, which rules are switched off, and
// the figures that have to come out. After a line "---" follows its transcript.
//
//	# A freezes with a chunk in its buffer.
//	set ttl 10s
//	set pause 15s
//	lock raft nodes=3
//	who A worker raise-after=500ms
//	at 0 A start
//	at 4 A pause $pause
//	event 12 19.05 A write-refused token=7 fence=12
//	figure twice 0
//	also without fence
//	figure twice 5000
//
// Events and figures below an "also" line are those of the same scenario with
// that change.
//
// Times are seconds ("4", "19.05") or carry a unit ("500ms"). A "$name" stands
// for the value of a setting, which a caller may replace before the run.
package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

// Script is a scenario, with every $name replaced.
type Script struct {
	Name     string
	Title    string   // the first comment line
	Notice   string   // the other comment lines: what to look at
	Lines    []Line   // what stands before the transcript, without the comments
	Settings []Value  // in the order of the file
	Without  Rules    //
	Lock     Part     // the lock service: kind and parameters
	Store    Part     // the resource
	Actors   []Part   // who takes part
	Links    []Part   // settings of single ways through the network
	Steps    []Step   // in the order of time
	Events   []Expect // lines that the log must have
	Figures  []Figure // facts that must come out
	Variants []Variant
	Want     string  // the transcript in the file
	Changed  bool    // a setting or a rule is not the file's own
	Was      []Value // the file's own values of the settings that are replaced; empty: its default

	used []string // settings that a line refers to
	text string   // the whole file, to read it again with a change
	head string   // what stands before the transcript, as it is
}

// Variant is the same scenario with something changed, for comparison: with a
// rule left out, or with another setting. It has events and figures of its own.
type Variant struct {
	Change  Change
	Events  []Expect
	Figures []Figure
}

// String says what is changed: "without fence, offset=3s".
func (v Variant) String() string {
	var parts []string
	for _, r := range v.Change.Without.Each() {
		parts = append(parts, "without "+r.String())
	}
	for _, c := range v.Change.Set {
		parts = append(parts, c.Name+"="+c.Text)
	}
	return strings.Join(parts, ", ")
}

// Rules is the set of rules that are switched off.
type Rules = protocol.Rules

// Line is a line of the file, with its number from 1.
type Line struct {
	N      int
	Fields []string
}

// Part is a thing with parameters.
type Part struct {
	Name   string
	Kind   string
	Params []Value
}

// Value is a named value, as it is written.
type Value struct{ Name, Text string }

// Step is something from outside, at a time.
type Step struct {
	At   time.Duration
	Who  string
	What string
	Args []string
}

// Expect is a line that the log must have. N numbers it in the transcript.
type Expect struct {
	N      int
	At     time.Duration
	Who    string
	What   string
	Fields []Value
}

// Figure is a fact that must come out.
type Figure struct{ Name, Text string }

// File is the scenario with a transcript, as it is kept.
func (s *Script) File(transcript string) string { return s.head + separator + transcript }

// Setting is the text of a setting, or "".
func (s *Script) Setting(name string) string {
	if i := slices.IndexFunc(s.Settings, func(v Value) bool { return v.Name == name }); i >= 0 {
		return s.Settings[i].Text
	}
	return ""
}

// Duration is a setting as a time; missing, it is zero. Parse has checked it.
func (s *Script) Duration(name string) time.Duration {
	d, _ := ParseTime(s.Setting(name))
	return d
}

// Int is a setting as a number.
func (s *Script) Int(name string) int {
	n, _ := parseInt(s.Setting(name))
	return n
}

// Text is a parameter, or "".
func (p Part) Text(name string) string {
	if i := slices.IndexFunc(p.Params, func(v Value) bool { return v.Name == name }); i >= 0 {
		return p.Params[i].Text
	}
	return ""
}

// Has reports whether the parameter is given.
func (p Part) Has(name string) bool {
	return slices.ContainsFunc(p.Params, func(v Value) bool { return v.Name == name })
}

// Duration is a parameter as a time; missing, it is the default.
func (p Part) Duration(name string, missing time.Duration) time.Duration {
	if d, err := ParseTime(p.Text(name)); err == nil && p.Has(name) {
		return d
	}
	return missing
}

// Int is a parameter as a number; missing, it is the default.
func (p Part) Int(name string, missing int) int {
	if n, err := parseInt(p.Text(name)); err == nil && p.Has(name) {
		return n
	}
	return missing
}

// Times are the lease's times.
func (s *Script) Times() protocol.Times {
	return protocol.Times{
		Length: s.Duration("ttl"), Margin: s.Duration("margin"), Renew: s.Duration("renew"), Timeout: s.Duration("timeout"),
	}.WithDefaults()
}

// Command is what replays the scenario with these changes.
func (s *Script) Command(seed uint64, sets []Value, without Rules) string {
	c := "stint sim run " + s.Name
	if seed != 0 {
		c += fmt.Sprintf(" --seed %d", seed)
	}
	if len(sets) > 0 {
		var parts []string
		for _, v := range sets {
			parts = append(parts, v.Name+"="+v.Text)
		}
		c += " --set " + strings.Join(parts, ",")
	}
	if without != 0 {
		c += " --without " + without.String()
	}
	return c
}
