package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

var epoch4 = fence.Grant{Token: 4, Nonce: "f-1"}

func successor(without Rules) *Successor {
	return NewSuccessor(SuccessorConfig{
		Nonce: "f-1", Longest: 10 * sec, Margin: 2 * sec, Wait: 15 * sec, Timeout: sec, Without: without,
	})
}

// TestAHandoverLeavesAGap: the old writer's last good refresh is at the flip, so
// its right ends at 10 at the latest; the new writer starts at 15.
func TestAHandoverLeavesAGap(t *testing.T) {
	s := successor(0)
	if f, ok := find[Flip](s.Step(0, Start{})); !ok || f.Nonce != "f-1" {
		t.Fatal("no flip")
	}
	s.Step(0, Flipped{Try: 1, Grant: epoch4})
	for ms := range 15000 {
		if out := s.Step(at(time.Duration(ms)*time.Millisecond), Tick{}); has[Raise](out) || has[Open](out) {
			t.Fatalf("at %d ms: %v", ms, out)
		}
	}
	out := s.Step(at(15*sec), Tick{})
	if r, ok := find[Raise](out); !ok || r.Grant != epoch4 || has[Open](out) {
		t.Fatalf("at 15 s: %v, want the raise, and no write before its answer", out)
	}
	if o, ok := find[Open](s.Step(at(15*sec), Raised{Try: 2})); !ok || o.Grant != epoch4 {
		t.Fatal("not open after the raise")
	}

	s = successor(RuleHandoverWait)
	s.Step(0, Start{})
	if out := s.Step(0, Flipped{Try: 1, Grant: epoch4}); !has[Raise](out) {
		t.Fatalf("without the rule: %v, want the raise at once, 10 s before the old right ends", out)
	}
}

// TestTheWaitCountsFromTheAnswer: the old writer may refresh until then.
func TestTheWaitCountsFromTheAnswer(t *testing.T) {
	s := successor(0)
	s.Step(0, Start{})
	s.Step(at(ms(500)), Flipped{Try: 1, Err: errors.New("cut")})
	tries := 1
	for now := ms(500); now < 3*sec; now += ms(100) {
		if has[Flip](s.Step(at(now), Tick{})) {
			tries++
		}
	}
	if tries < 3 {
		t.Fatalf("%d flips were sent in 3 s of no answer", tries)
	}
	s.Step(at(3*sec), Flipped{Try: tries, Grant: epoch4})
	if out := s.Step(at(ms(17999)), Tick{}); has[Raise](out) {
		t.Fatal("the wait counts from the first flip")
	}
	if out := s.Step(at(18*sec), Tick{}); !has[Raise](out) {
		t.Fatalf("at 18 s: %v", out)
	}
	if out := s.Step(at(ms(18100)), Flipped{Try: 1, Grant: epoch4}); len(out) > 0 {
		t.Fatalf("a second answer: %v", out)
	}
}

func TestASuccessorThatWasSucceededNeverWrites(t *testing.T) {
	s := successor(0)
	s.Step(0, Start{})
	s.Step(0, Flipped{Try: 1, Grant: epoch4})
	s.Step(at(15*sec), Tick{})
	if out := s.Step(at(15*sec), Raised{Try: 2, Err: errors.New("cut")}); has[Ended](out) {
		t.Fatalf("a lost answer: %v", out)
	}
	if out := s.Step(at(ms(15400)), Tick{}); !has[Raise](out) {
		t.Fatalf("not tried again: %v", out)
	}
	out := s.Step(at(ms(15400)), Raised{Try: 3, Err: &fence.StaleError{Presented: 4, Fence: 5}})
	if e, ok := find[Ended](out); !ok || e.End.Reason != TakenOver || !has[Quit](out) {
		t.Fatalf("refused: %v", out)
	}
	if out := s.Step(at(16*sec), Raised{Try: 2}); len(out) > 0 {
		t.Fatalf("a late answer opened the store: %v", out)
	}
}

// TestTheLeastWait is W >= (1+e) x [(T - margin)/(1-e) + s].
func TestTheLeastWait(t *testing.T) {
	c := SuccessorConfig{Longest: 10 * sec, Margin: 2 * sec, Timeout: sec}
	e := 1.0 / RateError
	want := time.Duration((1 + e) * (float64(8*sec)/(1-e) + float64(StopLatency)))
	if got := c.LeastWait(); got < want || got > want+time.Microsecond {
		t.Fatalf("least wait %v, want %v", got, want)
	}
	for _, bad := range []SuccessorConfig{
		{}, {Longest: 10 * sec}, {Longest: 10 * sec, Margin: 10 * sec, Timeout: sec},
		{Longest: 10 * sec, Margin: 2 * sec, Timeout: sec, Wait: 8 * sec},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	c.Wait = 15 * sec
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// TestWithoutAMarginTheLeastWaitIsTheWholeLease: the old writers went on to the
// end of theirs.
func TestWithoutAMarginTheLeastWaitIsTheWholeLease(t *testing.T) {
	c := SuccessorConfig{Nonce: "f-1", Longest: 10 * sec, Margin: 2 * sec, Timeout: sec}
	for without, from := range map[Rules]time.Duration{0: 8 * sec, RuleMargin: 10 * sec} {
		c.Without = without
		s := NewSuccessor(c)
		s.Step(0, Start{})
		s.Step(0, Flipped{Try: 1, Grant: epoch4})
		if out := s.Step(at(from), Tick{}); has[Raise](out) {
			t.Errorf("without %v it raises at %v", without, from)
		}
		if out := s.Step(at(from+time.Second/20), Tick{}); !has[Raise](out) {
			t.Errorf("without %v it still waits at %v: %v", without, from+time.Second/20, out)
		}
	}
}
