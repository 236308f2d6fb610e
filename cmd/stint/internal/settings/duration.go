// Package settings reads stint's settings: flags, their STINT_<FLAG> variables,
// and where the default authority lies.
package settings

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Duration is a flag that wants a unit: 10 of what is a question that a lease
// length must not leave open.
type Duration struct{ D *time.Duration }

func (d Duration) String() string {
	if d.D == nil || *d.D == 0 {
		return ""
	}
	return d.D.String()
}

// Type is what help shows.
func (d Duration) Type() string { return "duration" }

// Set parses s.
func (d Duration) Set(s string) error {
	v, err := ParseDuration(s)
	if err == nil {
		*d.D = v
	}
	return err
}

var bareNumber = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)

// ParseDuration reads 10s, 500ms, 1m30s, and 0. The error says how to write
// what was probably meant.
func ParseDuration(s string) (time.Duration, error) {
	v, err := time.ParseDuration(s)
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%q is negative: write a time from now, as in 10s", s)
	case err == nil:
		return v, nil
	case bareNumber.MatchString(s):
		return 0, fmt.Errorf("%q has no unit: write %ss for seconds (or ms, m, h)", s, strings.TrimPrefix(s, "+"))
	case countable.MatchString(s): // well written, and refused all the same
		return 0, fmt.Errorf("%q is longer than can be counted: write something like 10s", s)
	default:
		return 0, fmt.Errorf("%q is not a duration: write something like 10s, 500ms or 1m30s", s)
	}
}

// countable is what time.ParseDuration reads, but for its range.
var countable = regexp.MustCompile(`^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)
