package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

const s = time.Second

// held is a machine that was granted at once: sent at 0, stop 8 s.
func held(t *testing.T) *Holder {
	t.Helper()
	h := NewHolder(Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults()})
	h.Step(0, Start{})
	if !has[Granted](h.Step(0, granted(h, 1))) {
		t.Fatal("not granted")
	}
	return h
}

func granted(h *Holder, try int) Answer {
	return Answer{Op: OpAcquire, Try: try, Grant: grantOf(h, try)}
}

func grantOf(h *Holder, try int) authority.Grant {
	return authority.Grant{Grant: fence.Grant{Token: 7, Nonce: h.nonce(try)}, Name: "job", Length: 10 * s}
}

func has[E Effect](effects []Effect) bool {
	_, ok := find[E](effects)
	return ok
}

func find[E Effect](effects []Effect) (e E, ok bool) {
	for _, x := range effects {
		if e, ok = x.(E); ok {
			return e, true
		}
	}
	return e, false
}

func at(d time.Duration) Instant { return Instant(d) }

func TestAnAnswerCountsFromItsOwnRequest(t *testing.T) {
	h := held(t)
	h.Step(at(3*s), Tick{})         // renewal 2
	h.Step(at(4500*s/1000), Tick{}) // no answer: renewal 3
	h.Step(at(6*s), Tick{})         // renewal 4
	out := h.Step(at(6500*s/1000), Answer{Op: OpRenew, Try: 3, Grant: h.grant})
	if kept, ok := find[Kept](out); !ok || kept.Stop != at(12500*s/1000) {
		t.Fatalf("renewal 3, sent at 4.5 s: %v, want the stop time 12.5 s", out)
	}
	out = h.Step(at(6600*s/1000), Answer{Op: OpRenew, Try: 2, Grant: h.grant})
	if has[Kept](out) || h.Stop() != at(12500*s/1000) {
		t.Fatalf("the late answer of renewal 2 moved the stop time to %v: %v", h.Stop(), out)
	}
	out = h.Step(at(6700*s/1000), Answer{Op: OpRenew, Try: 4, Grant: h.grant})
	if kept, _ := find[Kept](out); kept.Stop != at(14*s) {
		t.Fatalf("renewal 4, sent at 6 s: %v", out)
	}
	if out = h.Step(at(6800*s/1000), Answer{Op: OpRenew, Try: 4, Grant: h.grant}); has[Kept](out) {
		t.Fatalf("the same answer twice: %v", out)
	}
}

func TestAnEndedLeaseNeverComesAliveAgain(t *testing.T) {
	for name, end := range map[string]struct {
		at time.Duration
		ev Event
	}{
		"expired":   {8 * s, Tick{}},
		"cancelled": {4 * s, Cancel{errors.New("gone")}},
		"released":  {4 * s, Release{}},
		"taken":     {4 * s, Answer{Op: OpRenew, Try: 2, Err: &authority.NotHeldError{}}},
	} {
		h := held(t)
		h.Step(at(3*s), Tick{}) // renewal 2
		h.Step(at(3500*s/1000), Tick{})
		if out := h.Step(at(end.at), end.ev); !has[Ended](out) || h.Holding() {
			t.Errorf("%s: %v", name, out)
		}
		for try := range 6 {
			out := h.Step(at(8*s), Answer{Op: OpRenew, Try: try, Grant: h.grant})
			if has[Kept](out) || has[Granted](out) || h.Holding() {
				t.Errorf("%s: an answer brought it back: %v", name, out)
			}
		}
	}
}

func TestAnUnknownChangeOfLengthCountsAsTheSmaller(t *testing.T) {
	h := held(t)
	h.Step(at(3*s), Tick{})
	g := h.grant
	g.Length = 4 * s // the authority keeps less from now on
	h.Step(at(3*s), Answer{Op: OpRenew, Try: 2, Grant: g})
	if h.Stop() != at(8*s) {
		t.Fatalf("a shorter length moved the stop time back to %v", h.Stop())
	}
	h.Step(at(6*s), Tick{})
	g.Length = 30 * s
	h.Step(at(6*s), Answer{Op: OpRenew, Try: 3, Grant: g})
	if h.Stop() != at(34*s) {
		t.Fatalf("stop %v after a renewal to 30 s, want 34 s", h.Stop())
	}
	h.Step(at(15*s), Tick{})
	g.Length = 0
	if h.Step(at(15*s), Answer{Op: OpRenew, Try: 4, Grant: g}); h.Stop() != at(34*s) {
		t.Fatalf("an unknown length moved the stop time to %v", h.Stop())
	}
}

func TestALeaseThatIsSharedCountsFromWhereTheAuthoritySays(t *testing.T) {
	h := NewHolder(Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults()})
	h.Step(at(20*s), Start{})
	a := granted(h, 1)
	a.Grant.From = at(17 * s)
	if g, ok := find[Granted](h.Step(at(20*s), a)); !ok || g.Stop != at(25*s) {
		t.Fatalf("granted until %v, want 17 + 10 - 2", g.Stop)
	}
}

func TestASilentAuthorityCollectsNoRequests(t *testing.T) {
	h := held(t)
	sent := 0
	for ms := range 8000 {
		for _, e := range h.Step(at(time.Duration(ms)*time.Millisecond), Tick{}) {
			if send, ok := e.(Send); ok && send.Op == OpRenew {
				sent++
			}
		}
	}
	if sent > maxOpen {
		t.Fatalf("%d renewals under way at once", sent)
	}
}

func TestALongWaitKeepsNoHistory(t *testing.T) {
	h := NewHolder(Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults(), Wait: true})
	effects := h.Step(0, Start{})
	for sec := range 10000 {
		now := at(time.Duration(sec) * s)
		for _, e := range effects {
			if send, ok := e.(Send); ok {
				h.Step(now, Answer{Op: send.Op, Try: send.Try, Err: errors.New("cut")})
			}
		}
		effects = h.Step(now, Tick{})
	}
	if len(h.tries) > 100 {
		t.Fatalf("%d tries are remembered", len(h.tries))
	}
}

func TestSomebodyElsesGrantIsNotTaken(t *testing.T) {
	for _, nonce := range []string{"b-1", "a-2", "a-01", "a-", "a", "a-1x"} {
		h := NewHolder(Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults()})
		h.Step(0, Start{})
		a := granted(h, 1)
		a.Grant.Nonce = nonce
		if out := h.Step(0, a); has[Granted](out) || h.Holding() {
			t.Errorf("took the grant of nonce %q", nonce)
		}
	}
}

func TestTimes(t *testing.T) {
	d := Times{}.WithDefaults()
	if d != (Times{10 * s, 2 * s, 3 * s, 1500 * time.Millisecond}) {
		t.Errorf("defaults %v", d)
	}
	if got := d.LeastMargin(); got < 21*time.Millisecond || got > 22*time.Millisecond {
		t.Errorf("least margin of 10 s is %v: want 2eT/(1+e) = 19.98 ms and 2 ms to stop", got)
	}
}
