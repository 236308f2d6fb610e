package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Setting describes a setting that a scenario may have.
type Setting struct {
	Name  string
	Range string
	Means string
	check func(string) error
}

func timed(name string, from, to time.Duration, means string) Setting {
	return Setting{name, fmt.Sprintf("%v to %v", from, to), means, isTime(from, to)}
}

func counted(name string, from, to int, means string) Setting {
	return Setting{name, fmt.Sprintf("%d to %d", from, to), means, isInt(from, to)}
}

func worded(name, means string, words ...string) Setting {
	return Setting{name, strings.Join(words, " or "), means, isWord(words...)}
}

// Settings lists the settings, with what is allowed.
func Settings() []Setting {
	return []Setting{
		timed("ttl", 10*time.Millisecond, time.Hour, "length of a lease"),
		timed("margin", time.Millisecond, time.Hour, "from the stop time to the end of the lease; less than ttl; for none at all leave the rule margin out"),
		timed("renew", time.Millisecond, time.Hour, "from one renewal to the next; renew + timeout + margin stay below ttl"),
		timed("timeout", time.Millisecond, time.Hour, "of one request"),
		timed("until", time.Second, maxTime, "end of the run"),
		timed("delay", 0, time.Minute, "of every message"),
		timed("jitter", 0, time.Minute, "random part of the delay, on top"),
		counted("loss", 0, 900_000, "messages lost, in millionths"),
		timed("fsync", 0, time.Second, "of a disk of the lock service"),
		timed("pause", 0, time.Hour, "how long the paused one stands still"),
		timed("step", -time.Hour, time.Hour, "step of a wall clock"),
		timed("offset", -time.Hour, time.Hour, "how far a wall clock is ahead"),
		counted("rate", -500_000, 500_000, "how much faster a clock runs, in millionths"),
		timed("lag", 0, time.Minute, "of the replica"),
		timed("wait", time.Millisecond, time.Hour, "how long the successor waits; for not at all leave the rule handover-wait out"),
		timed("claim-margin", 0, time.Hour, "that a claimant adds when it compares wall clocks"),
		timed("outage", 0, time.Hour, "how long the lock service cannot be reached"),
		counted("bump", 0, 1_000_000_000, "added to the revision at a restore"),
		counted("candidates", 1, 10_000, "who wait"),
		counted("brake", 1, 1_000_000, "orphans at once that a sweeper believes"),
		counted("chunks", 1, 10_000, "of the job"),
		counted("rows", 1, 1_000_000, "of a chunk"),
		worded("lock", "the lock service, or none", "raft", "none"),
		worded("sleeps", "the monotonic clock stands still while the machine is suspended", "yes", "no"),
		counted("holders", 1, 10_000_000, "who renew at one lock service"),
		counted("nodes", 1, 7, "of the lock service"),
		worded("unique", "the invoice table has a unique key", "yes", "no"),
		worded("second", "the order in which the second one takes its leases", "x-y", "y-x"),
		worded("idle-limit", "a transaction that stands still ends at its holder's stop time", "yes", "no"),
		worded("raise-reads", "the row: under its lock, or before it has the lock", "locked", "before"),
		worded("effects", "whether a write's effect is one step with its check", "locked", "loose"),
		worded("versions", "what the version of an item is made of: each write's nonce, or the contents", "writes", "contents"),
		worded("strings", "whether the grant strings of a cache say that they are weak", "weak", "plain"),
		worded("next-term", "when a candidate that has led stands again: after its work has returned, or at once", "after", "at-once"),
		worded("marking", "the marks of a resource that several may read: two, one for everybody, or none for readers", "two", "one", "none"),
		worded("bank", "whether the remote side takes a key for a repetition", "keys", "plain"),
		worded("pending", "what a PENDING of an older token means to its successor", "unknown", "repeat", "done"),
		timed("dies", 0, time.Hour, "when somebody dies"),
		worded("own-lease", "a lock under a shared lease has one of its own, or none, or is deleted early at its stop time", "kept", "missing", "early"),
		worded("settle", "what settles a create whose answer was lost: a higher guard, or a read", "guard", "read"),
		worded("proof", "what renews a lock under a shared lease: its key, or the lease's keep-alive", "key", "lease"),
		worded("batch", "creates of one name in a transaction", "one", "all"),
		worded("answers", "whether keep-alives may overlap, so that any answer counts for the last one", "matched", "any"),
		worded("leases", "who keeps the leases behind a gateway alive", "clients", "gateway"),
		worded("restored", "what a restore brings back beside the counter", "nothing", "keys"),
		worded("claims-after", "how long a claimant waits: as long as the record says, or its own lease length", "record", "own"),
		worded("unknown", "what becomes of a key under a shared lease that nobody in its process knows", "deleted", "kept"),
		timed("checkpoints", 0, time.Hour, "how often the lock service writes down what is left of its leases; 0: never"),
	}
}

func checkSetting(name, text string) error {
	all := Settings()
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		var known []string
		for _, s := range all {
			known = append(known, s.Name)
		}
		return fmt.Errorf("there is no setting %q; there are %s", name, strings.Join(known, ", "))
	}
	if err := all[i].check(text); err != nil {
		return fmt.Errorf("%s: %w (%s: %s)", name, err, all[i].Means, all[i].Range)
	}
	return nil
}

// change replaces the value of a setting that the scenario has, or that every
// scenario has.
func (s *Script) change(c Value) error {
	if err := checkSetting(c.Name, c.Text); err != nil {
		return err
	}
	i := slices.IndexFunc(s.Settings, func(v Value) bool { return v.Name == c.Name })
	s.Was = append(s.Was, Value{c.Name, s.Setting(c.Name)})
	switch {
	case i >= 0:
		s.Settings[i] = c
	case slices.Contains(everywhere, c.Name):
		s.Settings = append(s.Settings, c)
	default:
		var own []string
		for _, v := range s.Settings {
			own = append(own, v.Name)
		}
		return fmt.Errorf("this scenario does not use %q; it uses %s", c.Name, strings.Join(slices.Compact(slices.Sorted(slices.Values(append(own, everywhere...)))), ", "))
	}
	return nil
}

// everywhere are the settings that need no line in the file.
var everywhere = []string{"ttl", "margin", "renew", "timeout", "until", "delay", "jitter", "loss"}

// ErrTimes is matched by an error about the lease's times together.
var ErrTimes = errors.New("the lease's times do not fit together")

// checkTimes looks at the times of a lease of some length together. A margin of
// the whole lease would leave nothing to hold.
func (s *Script) checkTimes(length time.Duration) error {
	t := s.Times()
	t.Length = length
	if err := t.Check(); err != nil {
		least := (t.LeastMargin() + time.Millisecond - 1).Truncate(time.Millisecond)
		most := t.Length - t.Renew - t.Timeout - authority.MinLength
		if most >= least {
			return fmt.Errorf("%w: %w (with ttl=%v, renew=%v and timeout=%v, margin may be %v to %v)", ErrTimes, err, t.Length, t.Renew, t.Timeout, least, most)
		}
		return fmt.Errorf("%w: %w (renew + timeout + margin stay below ttl; give all of them, as in ttl=10s,margin=2s,renew=3s,timeout=1.5s)", ErrTimes, err)
	}
	return nil
}

// ParseSets reads "ttl=10s,margin=2s".
func ParseSets(texts []string) ([]Value, error) {
	var all []Value
	for _, text := range texts {
		for pair := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
			if !ok || name == "" || value == "" {
				return nil, fmt.Errorf("%q: write NAME=VALUE, as in ttl=10s", pair)
			}
			if err := checkSetting(name, value); err != nil {
				return nil, err
			}
			if slices.ContainsFunc(all, func(v Value) bool { return v.Name == name }) {
				return nil, fmt.Errorf("%s is given twice", name)
			}
			all = append(all, Value{name, value})
		}
	}
	return all, nil
}
