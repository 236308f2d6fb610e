package protocol

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// sweeps drives a sweeper over rows and an authority that answer at once.
type sweeps struct {
	t     *testing.T
	s     *Sweeper
	now   Instant
	timer Instant
	rows  []fence.Row
	held  func(name string) (authority.State, error)
	deaf  bool // the store does not answer
	said  []string
	tape  *tape
}

func newSweeps(t *testing.T, cfg SweeperConfig, rows ...fence.Row) *sweeps {
	w := &sweeps{t: t, s: NewSweeper(cfg), rows: rows}
	w.held = func(string) (authority.State, error) { return authority.State{}, nil }
	return w
}

func orphan(name string, owner fence.Token) fence.Row {
	return fence.Row{Name: name, Fence: owner, Owner: owner, Nonce: "n", State: fence.Running}
}

func (w *sweeps) step(ev Event) {
	queue := []Event{ev}
	for len(queue) > 0 {
		out := w.s.Step(w.now, queue[0])
		w.tape.record(w.now, "sweeper", queue[0], out)
		queue = queue[1:]
		for _, e := range out {
			switch e := e.(type) {
			case Scan:
				if !w.deaf {
					queue = append(queue, Scanned{Try: e.Try, Rows: append([]fence.Row(nil), w.rows...)})
				}
			case Look:
				st, err := w.held(e.Name)
				queue = append(queue, Inspected{Try: e.Try, Name: e.Name, State: st, Err: err})
			case Requeue:
				w.said = append(w.said, fmt.Sprintf("%v %v", w.now, e))
				queue = append(queue, w.requeue(e))
			case Braked:
				w.said = append(w.said, fmt.Sprintf("%v %v", w.now, e))
			case Arm:
				w.timer = e.At
			}
		}
	}
}

// requeue is the store's conditional write.
func (w *sweeps) requeue(e Requeue) Requeued {
	for i, r := range w.rows {
		if r.Name == e.Row.Name && (e.Blind || r == e.Row) {
			w.rows = append(w.rows[:i], w.rows[i+1:]...)
			return Requeued{Try: e.Try, Row: e.Row}
		}
	}
	return Requeued{Try: e.Try, Row: e.Row, Err: fence.ErrChanged}
}

func (w *sweeps) to(d time.Duration) {
	for w.timer != 0 && w.timer <= at(d) {
		w.now, w.timer = w.timer, 0
		w.step(Tick{})
	}
	w.now = at(d)
}

func (w *sweeps) want(lines ...string) {
	w.t.Helper()
	if fmt.Sprint(w.said) != fmt.Sprint(lines) {
		w.t.Fatalf("at %v the sweeper said\n%q, want\n%q", w.now, w.said, lines)
	}
}

// TestAnOrphanIsSweptAtItsSecondSighting: B's key goes at 29.5; the sweeper looks
// at 30 and at 40.
func TestAnOrphanIsSweptAtItsSecondSighting(t *testing.T) {
	run := func(without Rules) *sweeps {
		w := newSweeps(t, SweeperConfig{Without: without}, orphan("job", 12))
		w.held = func(string) (authority.State, error) {
			return authority.State{Held: w.now < at(ms(29500)), Grant: fence.Grant{Token: 12, Nonce: "n"}}, nil
		}
		w.step(Start{})
		w.to(60 * sec)
		return w
	}
	run(0).want(`40s requeue #6 "job" of 12 at fence 12`)
	run(RuleSecondSighting).want(`30s requeue #5 "job" of 12 at fence 12`)
}

// TestWhatARestoredAuthorityHasForgottenIsNotSweptForTheLongestLease: the lock
// service answers every question, but at 12 it starts again from a backup
// without its leases. The holder, cut off, may act until 22.
func TestWhatARestoredAuthorityHasForgottenIsNotSweptForTheLongestLease(t *testing.T) {
	w := newSweeps(t, SweeperConfig{Every: 4 * sec}, orphan("job", 12))
	w.held = func(string) (authority.State, error) { return authority.State{Held: w.now < at(12*sec)}, nil }
	w.step(Start{})
	w.to(23 * sec) // seen at 12, 16 and 20
	w.want()
	w.to(24 * sec)
	w.want(`24s requeue #8 "job" of 12 at fence 12`)
}

// TestAHolderBetweenItsAcquireAndItsRaiseIsNotSwept: the row still is the old
// owner's when it is seen first; by the second look the new one has raised.
func TestAHolderBetweenItsAcquireAndItsRaiseIsNotSwept(t *testing.T) {
	w := newSweeps(t, SweeperConfig{}, orphan("job", 7))
	w.step(Start{}) // the first sighting, a moment before B's acquire
	w.to(ms(5500))
	w.rows[0] = orphan("job", 12) // B has raised, and loses its key before 10
	w.to(15 * sec)
	w.want()
	w.to(20 * sec) // B's claim is an orphan of its own, and seen again
	w.want(`20s requeue #4 "job" of 12 at fence 12`)

	w = newSweeps(t, SweeperConfig{}, orphan("job", 7))
	w.held = func(string) (authority.State, error) {
		return authority.State{Held: true, Grant: fence.Grant{Token: 12, Nonce: "b"}}, nil
	}
	w.step(Start{})
	w.to(60 * sec)
	w.want() // a living key of another token: somebody is about to raise
}

// TestASweepDependsOnTheExactOwner: the holder raises between the sweeper's last
// look and its write.
func TestASweepDependsOnTheExactOwner(t *testing.T) {
	run := func(without Rules) int {
		w := newSweeps(t, SweeperConfig{Without: without}, orphan("job", 7))
		w.step(Start{})
		w.held = func(string) (authority.State, error) {
			w.rows[0] = orphan("job", 12)
			return authority.State{}, nil
		}
		w.to(10 * sec)
		if len(w.said) != 1 {
			t.Fatalf("said %q", w.said)
		}
		return len(w.rows)
	}
	if run(0) != 1 {
		t.Error("the new holder's row was swept")
	}
	if run(RuleExactOwner) != 0 {
		t.Error("without the rule, the write should have hit the new holder's row")
	}
}

// TestASweeperPausesInAStorm: the authority cannot be reached for 30 s, and all
// the leases run out although their holders are healthy.
func TestASweeperPausesInAStorm(t *testing.T) {
	var rows []fence.Row
	for i := range 1000 {
		rows = append(rows, orphan(fmt.Sprintf("job%03d", i), 7))
	}
	w := newSweeps(t, SweeperConfig{}, rows...)
	w.held = func(string) (authority.State, error) {
		switch {
		case w.now < at(25*sec): // healthy
			return authority.State{Held: true}, nil
		case w.now < at(55*sec):
			return authority.State{}, errors.New("cut off")
		case w.now < at(75*sec): // the holders come back slowly
			return authority.State{}, nil
		}
		return authority.State{Held: true}, nil
	}
	w.step(Start{})
	w.to(200 * sec)
	w.want("30s braked: cut off", "40s braked: cut off", "50s braked: cut off",
		"1m0s braked: the authority has only just come back", "1m10s braked until 1m20s: 1000 orphans at once")
}

// TestAStormThatStaysIsSweptAFewAtATime: they are orphans indeed.
func TestAStormThatStaysIsSweptAFewAtATime(t *testing.T) {
	var rows []fence.Row
	for i := range 25 {
		rows = append(rows, orphan(fmt.Sprintf("job%03d", i), 7))
	}
	w := newSweeps(t, SweeperConfig{}, rows...)
	w.step(Start{})
	for i, left := range []int{25, 25, 15, 5, 0} {
		w.to(time.Duration(i) * 10 * sec)
		if len(w.rows) != left {
			t.Fatalf("at %v %d rows are left, want %d: %q", w.now, len(w.rows), left, w.said)
		}
	}
}

// TestASweeperThatWasPausedLooksAgain: what it was told before the pause says
// nothing of now.
func TestASweeperThatWasPausedLooksAgain(t *testing.T) {
	s := NewSweeper(SweeperConfig{})
	row := orphan("job", 7)
	sweep := func(now Instant) (try int) {
		for _, e := range s.Step(now, Tick{}) {
			if e, ok := e.(Scan); ok {
				try = e.Try
			}
		}
		s.Step(now, Scanned{Try: try, Rows: []fence.Row{row}})
		return try
	}
	s.Step(0, Start{})
	s.Step(0, Scanned{Try: 1, Rows: []fence.Row{row}})
	s.Step(0, Inspected{Try: 1, Name: "job"})
	try := sweep(at(10 * sec))
	out := s.Step(at(18*sec), Inspected{Try: try, Name: "job"})
	if has[Requeue](out) {
		t.Fatalf("swept by an answer of 8 s ago: %v", out)
	}
}

func TestTheStoresTroubleIsNotTheAuthoritys(t *testing.T) {
	w := newSweeps(t, SweeperConfig{}, orphan("job", 7))
	w.step(Start{})
	w.deaf = true
	w.to(15 * sec)
	w.deaf = false
	w.to(20 * sec)
	w.want(`20s requeue #4 "job" of 7 at fence 7`)
}

func TestSweeperSettings(t *testing.T) {
	if err := (SweeperConfig{}).Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []SweeperConfig{{Every: -1}, {Most: -1}, {Every: sec}, {Timeout: 5 * sec}} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestASweeperWaitsTheLongestLeaseAfterAnOutage: few orphans too, since their
// holders may be about to come back.
func TestASweeperWaitsTheLongestLeaseAfterAnOutage(t *testing.T) {
	w := newSweeps(t, SweeperConfig{Longest: 25 * sec}, orphan("job", 7))
	w.held = func(string) (authority.State, error) {
		if w.now < at(15*sec) {
			return authority.State{}, errors.New("cut off")
		}
		return authority.State{}, nil
	}
	w.step(Start{})
	w.to(60 * sec)
	w.want("0s braked: cut off", "10s braked: cut off", "20s braked: the authority has only just come back",
		`50s requeue #7 "job" of 7 at fence 7`)
}

// TestWhatWasSeenBeforeAnOutageDoesNotCount.
func TestWhatWasSeenBeforeAnOutageDoesNotCount(t *testing.T) {
	w := newSweeps(t, SweeperConfig{Again: 15 * sec, Longest: sec}, orphan("job", 7))
	w.held = func(string) (authority.State, error) {
		if w.now == at(10*sec) {
			return authority.State{}, errors.New("cut off")
		}
		return authority.State{}, nil
	}
	w.step(Start{})
	w.to(60 * sec)
	w.want("10s braked: cut off", "20s braked: the authority has only just come back", `40s requeue #6 "job" of 7 at fence 7`)
}

// TestASweepThatFallsDueDuringAnotherWaits: after a pause the two come close.
func TestASweepThatFallsDueDuringAnotherWaits(t *testing.T) {
	s := NewSweeper(SweeperConfig{})
	step := func(now time.Duration, ev Event) []Effect {
		out := s.Step(at(now), ev)
		if arm, ok := find[Arm](out); ok && arm.At != 0 && arm.At <= at(now) {
			t.Fatalf("at %v the machine asks for a tick at %v, and would for ever", now, arm.At)
		}
		return out
	}
	step(0, Start{})
	step(0, Scanned{Try: 1})
	scan, ok := find[Scan](step(ms(19500), Tick{})) // of 10 s
	if !ok {
		t.Fatal("no sweep after the pause")
	}
	step(ms(19600), Scanned{Try: scan.Try, Rows: []fence.Row{orphan("job", 7)}})
	if out := step(20*sec, Tick{}); has[Scan](out) {
		t.Fatalf("two sweeps at once: %v", out)
	}
	if out := step(ms(20500), Inspected{Try: scan.Try, Name: "job"}); !has[Scan](out) {
		t.Fatalf("the sweep of 20 s is left out: %v", out)
	}
}
