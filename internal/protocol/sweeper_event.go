package protocol

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Scanned answers Scan: the rows that are RUNNING, from the sparse index.
type Scanned struct {
	Try  int
	Rows []fence.Row
	Err  error
}

// Inspected answers Look.
type Inspected struct {
	Try   int
	Name  string
	State authority.State
	Err   error
}

// Requeued answers Requeue. An error that matches fence.ErrChanged is definite.
type Requeued struct {
	Try int
	Row fence.Row
	Err error
}

func (Scanned) event()   {}
func (Inspected) event() {}
func (Requeued) event()  {}

// Scan asks the store for its claims.
type Scan struct {
	Try      int
	Deadline Instant
}

// Look asks the authority, linearizably, who holds a name.
type Look struct {
	Try      int
	Name     string
	Deadline Instant
}

// Requeue gives an orphan back, only if owner, nonce and fence are still exactly
// those of Row; whatever they are, where Blind.
type Requeue struct {
	Try   int
	Row   fence.Row
	Blind bool
}

// Braked says that the sweeper holds back until a time, and why.
type Braked struct {
	Until   Instant
	Orphans int
	Err     error // the authority's; nil where only the orphans are too many
}

func (Scan) effect()    {}
func (Look) effect()    {}
func (Requeue) effect() {}
func (Braked) effect()  {}

func (e Scan) String() string { return fmt.Sprintf("scan #%d until %v", e.Try, e.Deadline) }
func (e Look) String() string { return fmt.Sprintf("look #%d %q until %v", e.Try, e.Name, e.Deadline) }

func (e Requeue) String() string {
	s := fmt.Sprintf("requeue #%d %q", e.Try, e.Row.Name)
	if e.Blind {
		return s + " whoever owns it"
	}
	return s + fmt.Sprintf(" of %d at fence %d", e.Row.Owner, e.Row.Fence)
}

func (e Braked) String() string {
	if e.Err != nil {
		return "braked: " + e.Err.Error()
	}
	return fmt.Sprintf("braked until %v: %d orphans at once", e.Until, e.Orphans)
}

// SweeperConfig is a sweeper's settings; Check says what is wrong with them.
type SweeperConfig struct {
	Every   time.Duration // from one sweep to the next; zero: 10 s
	Again   time.Duration // an orphan was seen first this long ago, at the least, and Longest ago; zero: 5 s
	Longest time.Duration // the longest lease among the claims; zero: 10 s
	Most    int           // orphans in one sweep that are credible, and that are given back; zero: 10
	Timeout time.Duration // of one request; zero: 1.5 s
	Without Rules         // second-sighting, exact-owner
}

func (c SweeperConfig) withDefaults() SweeperConfig {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Every, 10*time.Second)
	set(&c.Again, 5*time.Second)
	set(&c.Longest, 10*time.Second)
	set(&c.Timeout, 1500*time.Millisecond)
	if c.Most == 0 {
		c.Most = 10
	}
	return c
}

// again is how long ago an orphan was seen first. An authority that was restored
// between two sweeps has forgotten its leases, and nothing in its answer says so:
// it has come back from the backup, and whoever cannot reach it may still hold
// for the longest lease.
func (c SweeperConfig) again() time.Duration { return max(c.Again, c.Longest) }

// Check returns the rule that the settings break.
func (c SweeperConfig) Check() error {
	c = c.withDefaults()
	if c.Every < 0 || c.Again < 0 || c.Longest < 0 || c.Timeout < 0 || c.Most < 0 {
		return fmt.Errorf("a sweeper's settings are not negative: %+v", c)
	}
	if 2*c.Timeout >= c.Every {
		return fmt.Errorf("time-out %v: a sweep takes two of them, and has to end before the next one begins after %v", c.Timeout, c.Every)
	}
	return nil
}
