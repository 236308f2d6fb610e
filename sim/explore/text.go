package explore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Bounds that keep a file of nonsense from asking for a world that never ends.
const (
	maxText    = 1 << 20
	maxFaults  = 10_000
	maxTime    = 24 * time.Hour
	maxWorkers = 8
	maxChunks  = 1000
)

type setting struct {
	name string
	d    *time.Duration
	n    *int
}

// table is the one place that names the settings.
func (s *Settings) table() []setting {
	return []setting{
		{"ttl", &s.TTL, nil}, {"margin", &s.Margin, nil}, {"renew", &s.Renew, nil}, {"timeout", &s.Timeout, nil},
		{"raft", nil, &s.Raft}, {"nodes", nil, &s.Nodes}, {"torn", nil, &s.Torn}, {"workers", nil, &s.Workers}, {"chunks", nil, &s.Chunks},
		{"delay", &s.Delay, nil}, {"commit", &s.Commit, nil}, {"election", &s.Election, nil}, {"checkpoint", &s.Checkpoint, nil},
		{"raise-after", &s.RaiseAfter, nil}, {"build", &s.Build, nil}, {"pace", &s.Pace, nil}, {"beat", &s.Beat, nil},
		{"sweep", &s.Sweep, nil}, {"again", &s.Again, nil}, {"quiet", &s.Quiet, nil},
	}
}

// Text is the plan as a file: what Parse reads.
func (p Plan) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world %s\nseed %d\n", p.Kind, p.Seed)
	for _, s := range p.Settings.table() {
		switch {
		case s.d != nil && *s.d != 0:
			fmt.Fprintf(&b, "set %s %s\n", s.name, world.Seconds(*s.d))
		case s.n != nil && *s.n != 0:
			fmt.Fprintf(&b, "set %s %d\n", s.name, *s.n)
		}
	}
	for _, r := range p.Without.Each() {
		fmt.Fprintf(&b, "without %s\n", r)
	}
	for _, f := range p.Faults {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// String is the fault's line.
func (f Fault) String() string {
	s := fmt.Sprintf("at %s %s %s", world.Seconds(f.At), f.Who, f.What)
	if f.Peer != "" {
		s += " peer=" + f.Peer
	}
	if f.By != 0 {
		s += " by=" + world.Seconds(f.By)
	}
	if f.N != 0 {
		s += " n=" + strconv.Itoa(f.N)
	}
	if f.For != 0 {
		s += " for=" + world.Seconds(f.For)
	}
	return s
}

// IsPlan reports whether a file is a plan, and not a scenario of another kind.
func IsPlan(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			return strings.HasPrefix(line, "world ")
		}
	}
	return false
}

// Parse reads a plan. Comments begin with #; what follows a line "---" is a
// transcript, which is not read.
func Parse(text string) (Plan, error) {
	var p Plan
	if len(text) > maxText {
		return p, fmt.Errorf("%d bytes; at most %d are read", len(text), maxText)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // as editors on Windows leave it
	head, _, _ := strings.Cut(text, "\n---\n")
	for n, line := range strings.Split(head, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if err := p.line(f); err != nil {
			return p, fmt.Errorf("line %d: %q: %w", n+1, strings.TrimSpace(line), err)
		}
	}
	return p, p.Check()
}

func (p *Plan) line(f []string) error {
	switch {
	case f[0] == "world" && len(f) == 2:
		p.Kind = Kind(f[1])
		return nil
	case f[0] == "seed" && len(f) == 2:
		n, err := strconv.ParseUint(f[1], 10, 64)
		p.Seed = n
		return err
	case f[0] == "set" && len(f) == 3:
		return p.set(f[1], f[2])
	case f[0] == "without" && len(f) == 2:
		r, err := protocol.ParseRule(f[1])
		p.Without |= r
		return err
	case f[0] == "at" && len(f) >= 4 && len(p.Faults) < maxFaults:
		fault, err := parseFault(f[1:])
		p.Faults = append(p.Faults, fault)
		return err
	}
	return fmt.Errorf("not a line of a plan; one begins with world, seed, set, without or at")
}

func (p *Plan) set(name, text string) error {
	for _, s := range p.Settings.table() {
		if s.name != name {
			continue
		}
		if s.d != nil {
			return parseTime(text, s.d)
		}
		n, err := strconv.Atoi(text)
		*s.n = n
		return err
	}
	return fmt.Errorf("there is no setting %q", name)
}

func parseFault(f []string) (Fault, error) {
	out := Fault{Who: f[1], What: f[2]}
	if err := parseTime(f[0], &out.At); err != nil {
		return out, err
	}
	for _, field := range f[3:] {
		k, v, ok := strings.Cut(field, "=")
		var err error
		switch {
		case ok && k == "peer":
			out.Peer = v
		case ok && k == "by":
			err = parseTime(v, &out.By)
		case ok && k == "for":
			err = parseTime(v, &out.For)
		case ok && k == "n":
			out.N, err = strconv.Atoi(v)
		default:
			err = fmt.Errorf("%q: a fault has peer=, by=, n= and for=", field)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// parseTime reads seconds, exactly: "19.05". ParseDuration is exact down to the
// nanosecond, which floating point would not be.
func parseTime(text string, to *time.Duration) error {
	d, err := time.ParseDuration(text + "s")
	if err != nil || d > maxTime || d < -maxTime {
		return fmt.Errorf("%q is not a time in seconds within a day", text)
	}
	*to = d
	return nil
}
