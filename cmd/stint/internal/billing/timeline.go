package billing

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Teller shows events as they happen.
type Teller interface {
	Tell(Event)
}

// Lines tells every event as a line of JSON.
type Lines struct{ W io.Writer }

// Tell writes e.
func (l Lines) Tell(e Event) {
	if b, err := json.Marshal(e); err == nil {
		l.W.Write(append(b, '\n'))
	}
}

// Timeline tells the story to people: one line per event that matters, with a
// lane for each worker.
type Timeline struct {
	W     io.Writer
	Color bool
	lanes map[string]byte // what each worker's lane shows between its events
	said  map[string]bool // waiting lines that were told already
}

// The lanes, and how a line is marked.
const (
	laneOut     = ' ' // not started, or gone
	laneWaits   = '.' // stands in line
	laneHolds   = '|' // believes that it holds the lease
	laneFrozen  = '#' // is stopped
	markActs    = 'o'
	markRefused = 'X'
	markDouble  = '!'
)

var lanes = []string{"A", "B", "C"}

// Head says what is about to be seen, and names the columns.
//
// store says where the store is; empty: in the run's folder.
func (t *Timeline) Head(s *Show, store string, kept bool) {
	authority, gone := s.Authority(), "three etcd processes, ended at the end"
	fate := "removed at the end"
	if kept {
		fate = "kept"
	}
	if store == "" {
		store = StoreFile(s.Dir)
	}
	if s.Nodes == nil {
		gone = fate
	}
	fmt.Fprintf(t.W, `Three worker processes contend for the lease %q (length %v). The holder
bills %s invoices in %d chunks.
Store:     %s (%s)
Authority: %s (%s)

  . waits   | holds the lease, or believes so   # is stopped
  o acts    X is refused by the fence           ! writes too late

%8s  %s  token
`, JobName, s.TTL, comma(storyChunks*storyPerChunk), storyChunks,
		store, fate, authority, gone, "time", strings.Join(lanes, " "))
}

// Tell writes e's line, if it has one, and moves the lanes.
func (t *Timeline) Tell(e Event) {
	if t.lanes == nil {
		t.lanes, t.said = map[string]byte{}, map[string]bool{}
	}
	if e.Count != nil {
		fmt.Fprintf(t.W, "\nCounted from the database: %v.\n", *e.Count)
		return
	}
	what, mark := t.line(e)
	if what != "" {
		t.write(e, what, mark)
	}
	if next, ok := laneAfter(e); ok {
		t.lanes[e.Who] = next
	}
}

func (t *Timeline) write(e Event, what string, mark byte) {
	var cells []string
	for _, who := range lanes {
		c := t.lanes[who]
		if c == 0 {
			c = laneOut
		}
		if who == e.Who {
			c = mark
		}
		cells = append(cells, string(rune(c)))
	}
	token := ""
	if e.Token > 0 {
		token = fmt.Sprint(e.Token)
	}
	line := fmt.Sprintf("%7.2fs  %s  %5s  %s %s", e.T, strings.Join(cells, " "), token, e.Who, what)
	fmt.Fprintln(t.W, t.paint(mark, line))
}

// paint colours the lines that the story is about.
func (t *Timeline) paint(mark byte, line string) string {
	if !t.Color {
		return line
	}
	switch mark {
	case markRefused, markDouble:
		return "\x1b[1;31m" + line + "\x1b[0m"
	case laneFrozen:
		return "\x1b[36m" + line + "\x1b[0m"
	}
	return line
}

// laneAfter is what e's worker does from now on.
func laneAfter(e Event) (byte, bool) {
	if e.Kind == KindStale || e.Step == Retry && e.Chunk == 0 { // the attempt is over
		return laneOut, true
	}
	switch e.Step {
	case Waiting:
		return laneWaits, true
	case AfterAcquire, Woken:
		return laneHolds, true
	case Frozen:
		return laneFrozen, true
	case AfterRelease, Ended, Exited:
		return laneOut, true
	}
	return 0, false
}

// line says what e means, in words, and how it is marked. Most steps are not
// worth a line.
func (t *Timeline) line(e Event) (string, byte) {
	if e.Err != "" {
		return t.refusal(e)
	}
	switch e.Step {
	case Waiting:
		if t.said[e.Who+e.Note] {
			return "", 0
		}
		t.said[e.Who+e.Note] = true
		return "waits: " + e.Note, laneWaits
	case AfterAcquire:
		return "acquires the lease", markActs
	case AfterRaise:
		return fmt.Sprintf("raises the fence to %d%s", e.Fence, e.Note), markActs
	case AfterRead:
		return e.Note, markActs
	case Checked:
		if e.Held {
			return fmt.Sprintf("has chunk %d in its buffer; its check of the lease has just passed", e.Chunk), markActs
		}
	case AfterCommit:
		if e.Late {
			return fmt.Sprintf("sends chunk %d, late: LANDED, %s charges a second time", e.Chunk, comma(e.Rows)), markDouble
		}
		return fmt.Sprintf("bills chunk %d: %s charges", e.Chunk, comma(e.Rows)), markActs
	case AfterRenew:
		return "renews", markActs
	case AfterFinish:
		return "sets the job DONE" + e.Note, markActs
	case AfterRelease:
		return "releases the lease", markActs
	case Frozen:
		return "is stopped with SIGSTOP " + e.Note, laneFrozen
	case LeaderKilled:
		return "the leader, " + e.Note + ", is killed with SIGKILL while B holds the lease", laneFrozen
	case LeaderNew:
		return "another node leads: " + e.Note, markActs
	case Survived:
		return fmt.Sprintf("has renewed with the new leader: the same lease, token %d", e.Token), markActs
	case Woken:
		return "wakes (SIGCONT) and believes that it still holds the lease", markActs
	}
	return "", 0
}

// refusal tells of what did not work. A request that failed otherwise needs no
// line: what the worker makes of it follows.
func (t *Timeline) refusal(e Event) (string, byte) {
	switch {
	case e.Step == Ended && e.Kind == KindStale:
		return "lets go: throws its buffer away and ends", markActs
	case e.Step == Ended:
		return "gives up: " + oneLine(e.Err), markActs
	case e.Step == Retry && e.Kind == KindLost:
		return "sees that its lease is over, and stands in line again", markActs
	case e.Step == Retry:
		return "tries again: " + oneLine(e.Err), markActs
	case e.Step == AfterCommit && e.Kind == KindStale:
		return fmt.Sprintf("sends chunk %d: REFUSED, token %d is lower than the fence %d; nothing was written", e.Chunk, e.Token, e.Fence), markRefused
	case e.Kind == KindStale:
		return fmt.Sprintf("is turned away, token %d is lower than the fence %d", e.Token, e.Fence), markRefused
	}
	return "", 0
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
