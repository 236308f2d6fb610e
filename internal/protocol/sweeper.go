package protocol

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Sweeper gives back jobs whose holder is gone. It compares no times of other
// machines: it asks the authority who holds a name. It serves liveness only; a
// sweep in error costs a repetition, and the fence keeps the data safe. It is
// not safe for concurrent use.
type Sweeper struct {
	cfg   SweeperConfig
	now   Instant
	out   []Effect
	alarm alarm
	next  timer // sweep
	n     int

	// The sweep under way.
	scan  int            // its number; 0: none
	until Instant        // the end of the request under way
	looks map[string]int // looks without an answer: the row's place in rows
	rows  []fence.Row
	state []authority.State // of the rows
	err   error

	seen  map[string]sighting
	away  bool // the authority could not be asked in the last sweep
	quiet Instant
	tame  bool // has braked: a few at a time
	over  bool
}

// sighting is when a row was first seen without a holder.
type sighting struct {
	row fence.Row
	at  Instant
}

// NewSweeper makes a machine that waits for Start.
func NewSweeper(cfg SweeperConfig) *Sweeper {
	return &Sweeper{cfg: cfg.withDefaults(), seen: map[string]sighting{}}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (s *Sweeper) Step(now Instant, ev Event) []Effect {
	s.now = now
	// Before anything else: what the authority said long ago, to a sweeper that
	// was paused since then, says nothing of now.
	if s.scan != 0 && now >= s.until {
		s.late()
	}
	switch ev := ev.(type) {
	case Start:
		if !s.next.on {
			s.next.set(now)
		}
	case Scanned:
		s.scanned(ev)
	case Inspected:
		s.inspected(ev)
	case Requeued:
		s.requeued(ev)
	case Cancel:
		s.over = true
		s.emit(Quit{})
	case Tick:
		s.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	s.due()
	out := s.out
	s.out = nil
	return out
}

func (s *Sweeper) emit(e Effect) { s.out = append(s.out, e) }

func (s *Sweeper) due() {
	if s.scan == 0 && !s.over && s.next.due(s.now) {
		s.n++
		s.scan, s.until = s.n, s.now.Add(s.cfg.Timeout)
		for s.next.due(s.now) { // a sweeper that was paused leaves out what it missed
			s.next.set(s.next.at.Add(s.cfg.Every))
		}
		s.emit(Scan{s.scan, s.until})
	}
	at := s.next
	if s.scan != 0 { // a sweep that is due meanwhile waits for this one's end
		at.set(s.until)
	}
	if s.over {
		at.off()
	}
	if e, news := s.alarm.want(at); news {
		s.emit(e)
	}
}

// scanned asks the authority about every row, after it was read: a holder who
// comes later is not in the row that a sweep depends on.
func (s *Sweeper) scanned(ev Scanned) {
	if ev.Try != s.scan || s.scan == 0 || s.rows != nil {
		return
	}
	if ev.Err != nil {
		s.finish()
		return
	}
	s.rows, s.err = make([]fence.Row, 0, len(ev.Rows)), nil
	s.state = make([]authority.State, len(ev.Rows))
	s.looks = make(map[string]int, len(ev.Rows))
	s.until = s.now.Add(s.cfg.Timeout)
	for _, r := range ev.Rows {
		if _, twice := s.looks[r.Name]; twice || r.State != fence.Running {
			continue
		}
		s.looks[r.Name] = len(s.rows)
		s.rows = append(s.rows, r)
		s.emit(Look{s.scan, r.Name, s.until})
	}
	if len(s.rows) == 0 {
		s.finish() // asks nobody, so it says nothing of the authority either
		clear(s.seen)
	}
}

func (s *Sweeper) inspected(ev Inspected) {
	i, ok := s.looks[ev.Name]
	if ev.Try != s.scan || s.scan == 0 || !ok {
		return
	}
	delete(s.looks, ev.Name)
	s.state[i] = ev.State
	if ev.Err != nil {
		s.err = ev.Err
	}
	if len(s.looks) > 0 {
		return
	}
	if s.err != nil {
		s.fail(s.err)
		return
	}
	s.decide()
}

// late ends a sweep that had no answer in time.
func (s *Sweeper) late() {
	if s.rows == nil { // the store's trouble says nothing of holders
		s.finish()
		return
	}
	s.fail(fmt.Errorf("%d questions to the authority had no answer in time", len(s.looks)))
}

// fail ends a sweep in which the authority could not be asked. Nothing that was
// seen before counts any more: while it was away, healthy holders lost their
// leases too.
func (s *Sweeper) fail(err error) {
	s.finish()
	s.away = true
	s.seen = map[string]sighting{}
	s.emit(Braked{Err: err})
}

func (s *Sweeper) finish() {
	s.scan, s.rows, s.looks, s.state = 0, nil, nil, nil
}

// decide looks at what the authority said of each row.
func (s *Sweeper) decide() {
	if s.away { // it is back: its holders come back within a lease
		s.away = false
		s.quiet = s.now.Add(s.cfg.Longest)
		s.emit(Braked{Until: s.quiet, Err: errors.New("the authority has only just come back")})
	}
	seen := make(map[string]sighting, len(s.seen))
	var due []fence.Row
	for i, r := range s.rows {
		if s.state[i].Held { // by its owner, or by somebody who is about to raise the fence
			continue
		}
		first, ok := s.seen[r.Name] // of this very claim, else it begins again
		if !ok || !sameClaim(first.row, r) {
			first = sighting{r, s.now}
		}
		seen[r.Name] = first
		old := s.now.Sub(first.at) >= s.cfg.again()
		if old || s.cfg.Without.Has(RuleSecondSighting) {
			due = append(due, r)
		}
	}
	s.seen = seen
	s.finish()
	s.sweep(due)
}

// sameClaim reports whether two sightings are of one claim.
func sameClaim(a, b fence.Row) bool {
	return a.Owner == b.Owner && a.Nonce == b.Nonce && a.Fence == b.Fence
}

// sweep gives orphans back, but not a storm of them: when thousands come at
// once, it is the way to the authority that is broken, not the holders.
func (s *Sweeper) sweep(due []fence.Row) {
	if s.now < s.quiet {
		return
	}
	if len(due) <= s.cfg.Most {
		s.tame = false
	} else if !s.tame {
		s.tame = true
		s.quiet = s.now.Add(s.cfg.Longest)
		s.emit(Braked{Until: s.quiet, Orphans: len(due)})
		return
	} else {
		due = due[:s.cfg.Most]
	}
	for _, r := range due {
		s.n++
		s.emit(Requeue{Try: s.n, Row: r, Blind: s.cfg.Without.Has(RuleExactOwner)})
	}
}

// requeued forgets what was given back or has changed: another claim of the same
// name begins with a first sighting.
func (s *Sweeper) requeued(ev Requeued) {
	if ev.Err == nil || errors.Is(ev.Err, fence.ErrChanged) {
		delete(s.seen, ev.Row.Name)
	}
}
