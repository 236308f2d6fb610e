package protocol

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint/authority"
)

func TestRuleNamesAreReadAndWritten(t *testing.T) {
	names := RuleNames()
	if len(names) != len(AllRules.Each()) {
		t.Fatalf("%d names for %d rules", len(names), len(AllRules.Each()))
	}
	for i, name := range names {
		r, err := ParseRule(name)
		if err != nil || r != AllRules.Each()[i] || r.String() != name {
			t.Errorf("%q is read as %v (%v)", name, r, err)
		}
	}
	all, err := ParseRules(strings.Join(names, ","))
	if err != nil || all != AllRules || all.String() != strings.Join(names, ",") {
		t.Errorf("all names are read as %v (%v)", all, err)
	}
	if none, err := ParseRules(""); none != 0 || err != nil || none.String() != "" {
		t.Errorf("no names: %v, %v", none, err)
	}
	for _, bad := range []string{"x", "Fence", "fence,", "fence,,margin", " fence"} {
		if _, err := ParseRules(bad); err == nil || !strings.Contains(err.Error(), "renewal-clears-checkpoint") {
			t.Errorf("%q: %v, want an error that lists the rules", bad, err)
		}
	}
}

// heldWithout is a machine without some rules, granted at 0 by a request that
// was under way for 1 s.
func heldWithout(t *testing.T, without Rules) *Holder {
	t.Helper()
	h := NewHolder(Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults(), BeatWithin: 2 * s, Without: without})
	h.Step(0, Start{})
	if !has[Granted](h.Step(at(s), granted(h, 1))) {
		t.Fatal("not granted")
	}
	return h
}

func TestAHolderWithoutARule(t *testing.T) {
	for _, c := range []struct {
		without Rules
		stop    Instant
	}{
		{0, at(8 * s)}, {RuleMargin, at(10 * s)}, {RuleSentAt, at(9 * s)}, {RuleMargin | RuleSentAt, at(11 * s)},
		{AllRules &^ (RuleMargin | RuleSentAt), at(8 * s)},
	} {
		if h := heldWithout(t, c.without); h.Stop() != c.stop {
			t.Errorf("without %q the stop time is %v, want %v", c.without, h.Stop(), c.stop)
		}
	}
	// The work gives no sign of life.
	for _, c := range []struct {
		without Rules
		renews  bool
	}{{0, false}, {RuleBeat, true}} {
		h := heldWithout(t, c.without)
		if out := h.Step(at(4*s), Tick{}); has[Send](out) != c.renews {
			t.Errorf("without %q: %v", c.without, out)
		}
	}
}

// TestALateReleaseIsGuarded: the holder was paused past its lease, so the key is
// a rival's by now.
func TestALateReleaseIsGuarded(t *testing.T) {
	h := heldWithout(t, 0)
	out := h.Step(at(30*s), Tick{})
	if !has[Ended](out) || !has[Quit](out) {
		t.Fatalf("awake again: %v, want the end, and nothing left to do", out)
	}
	if out := h.Step(at(30*s), Release{}); has[Send](out) {
		t.Fatalf("a release long after the lease: %v", out)
	}

	h = heldWithout(t, RuleConditional)
	if out := h.Step(at(30*s), Tick{}); !has[Ended](out) || has[Quit](out) || has[Arm](out) {
		t.Fatalf("awake again without the rule: %v", out)
	}
	send, ok := find[Send](h.Step(at(30*s), Release{}))
	if !ok || !send.Grant.IsZero() || !strings.Contains(send.String(), "whatever is there") {
		t.Fatalf("released %v, want whatever is there", send)
	}
	if out := h.Step(at(30*s), Answer{Op: OpRelease, Try: send.Try}); !has[Settled](out) || !has[Quit](out) {
		t.Fatalf("answered: %v", out)
	}

	// What the authority says about its own grant does not hold it back.
	h = heldWithout(t, RuleConditional)
	h.Step(at(1100*s/1000), Beat{at(1100 * s / 1000)})
	renew, _ := find[Send](h.Step(at(3*s), Tick{}))
	h.Step(at(3*s), Answer{Op: OpRenew, Try: renew.Try, Err: &authority.NotHeldError{}})
	if out := h.Step(at(3*s), Release{}); !has[Send](out) {
		t.Fatalf("after a definite loss: %v", out)
	}
}

func TestAGhostIsReleasedUnderItsOwnGrant(t *testing.T) {
	for _, without := range []Rules{0, RuleConditional} {
		h := NewHolder(Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults(), Without: without})
		h.Step(0, Start{})
		h.Step(at(s), Cancel{errors.New("gone")})
		released := false
		for _, e := range h.Step(at(s), granted(h, 1)) {
			if send, ok := e.(Send); ok && send.Op == OpRelease {
				released = true
				if send.Grant.IsZero() != (without != 0) {
					t.Errorf("without %q: %v", without, send)
				}
			}
		}
		if !released {
			t.Errorf("without %q the grant is not given back", without)
		}
	}
}
