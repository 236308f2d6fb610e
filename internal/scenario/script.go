// Package scenario runs the protocol machines through written scenarios and
// keeps what they do as transcripts that a person can read.
//
// A scenario is a text file: settings, faults, what happens when, then a line
// "---" and the transcript. The same file is run by two drivers: the one here,
// with a virtual clock and no goroutine, and the runtime of package stint. Both
// have to give the same bytes.
package scenario

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

// Script is a scenario.
type Script struct {
	Title      string // its comment lines
	Times      protocol.Times
	RTT        time.Duration // to the authority and back
	Skew       time.Duration // added once per kind of request, so that two sent at one instant do not tie
	Queuer     bool          // the authority keeps a line
	Try        bool          // TryAcquire instead of Acquire
	Wait       time.Duration
	BeatWithin time.Duration
	Faults     map[Nth]Fault
	Steps      []Step
	Until      time.Duration
	Want       string // the transcript in the file
	source     string // what stands before it
}

// Nth is the n-th request of one kind, from 1.
type Nth struct {
	Op protocol.Op
	N  int
}

// Fault is what the network does to one request.
type Fault struct {
	DropRequest, DropAnswer bool
	DelayRequest            time.Duration
	DelayAnswer             time.Duration
	Twice                   bool // the request arrives twice
}

// Step is something from outside at a time.
type Step struct {
	At   time.Duration
	What string        // start, cancel, release, beat, pause, rival, rival-release, break
	For  time.Duration // of rival: the length of its lease; of pause: its own
}

// Parse reads a scenario file.
func Parse(text string) (Script, error) {
	head, want, _ := strings.Cut(text, "---\n")
	s := Script{RTT: 100 * time.Millisecond, Faults: map[Nth]Fault{}, Want: want, source: head}
	sc := bufio.NewScanner(strings.NewReader(head))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			s.Title += strings.TrimSpace(comment) + "\n"
			continue
		}
		if line == "" {
			continue
		}
		if err := s.line(strings.Fields(line)); err != nil {
			return s, fmt.Errorf("line %d: %q: %w", n, line, err)
		}
	}
	s.Times = s.Times.WithDefaults()
	if err := s.Times.Check(); err != nil {
		return s, err
	}
	return s, nil
}

// File is the scenario with its transcript, as it is kept.
func (s Script) File(transcript string) string { return s.source + "---\n" + transcript }

func (s *Script) line(f []string) error {
	durations := map[string]*time.Duration{
		"ttl": &s.Times.Length, "margin": &s.Times.Margin, "renew": &s.Times.Renew, "timeout": &s.Times.Timeout,
		"rtt": &s.RTT, "wait": &s.Wait, "beat-within": &s.BeatWithin, "until": &s.Until,
	}
	if d, ok := durations[f[0]]; ok && len(f) == 2 {
		var err error
		*d, err = time.ParseDuration(f[1])
		return err
	}
	switch {
	case f[0] == "queue" && len(f) == 1:
		s.Queuer = true
	case f[0] == "try" && len(f) == 1:
		s.Try = true
	case f[0] == "fault" && len(f) >= 4:
		return s.fault(f[1:])
	case f[0] == "at" && len(f) >= 3:
		return s.step(f[1:])
	default:
		return fmt.Errorf("not a line of a scenario")
	}
	return nil
}

func (s *Script) fault(f []string) error {
	op, err := parseOp(f[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	var fault Fault
	for i := 2; i < len(f); i++ {
		switch f[i] {
		case "drop-request":
			fault.DropRequest = true
		case "drop-answer":
			fault.DropAnswer = true
		case "twice":
			fault.Twice = true
		case "delay-request", "delay-answer":
			if i+1 == len(f) {
				return fmt.Errorf("%s needs a time", f[i])
			}
			d, err := time.ParseDuration(f[i+1])
			if err != nil {
				return err
			}
			if f[i] == "delay-request" {
				fault.DelayRequest = d
			} else {
				fault.DelayAnswer = d
			}
			i++
		default:
			return fmt.Errorf("unknown fault %q", f[i])
		}
	}
	s.Faults[Nth{op, n}] = fault
	return nil
}

func (s *Script) step(f []string) (err error) {
	var step Step
	if step.At, err = time.ParseDuration(f[0]); err != nil {
		return err
	}
	step.What = f[1]
	switch step.What {
	case "start", "cancel", "release", "beat", "rival-release", "break":
	case "rival", "pause":
		if len(f) != 3 {
			return fmt.Errorf("%s needs a length", step.What)
		}
		step.For, err = time.ParseDuration(f[2])
	default:
		err = fmt.Errorf("unknown step %q", step.What)
	}
	s.Steps = append(s.Steps, step)
	return err
}

func parseOp(s string) (protocol.Op, error) {
	for op := protocol.OpAcquire; op <= protocol.OpLeave; op++ {
		if op.String() == s {
			return op, nil
		}
	}
	return 0, fmt.Errorf("unknown request %q", s)
}
