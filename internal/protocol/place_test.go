package protocol

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// An authority may let a place in line become the grant: it then carries the
// nonce of the try that took the place, and says from when it counts.

var inLine = Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults(), Wait: true, Queuer: true}

// secondTry is a machine whose first try took the place at 0, and whose third
// request, a second try, left at 60 s.
func secondTry(t *testing.T) *Holder {
	t.Helper()
	h := NewHolder(inLine)
	h.Step(0, Start{})
	h.Step(0, refusedBy(1, fence.Grant{Token: 3, Nonce: "b-1"}))
	if out := h.Step(at(60*s), Answer{Op: OpWait, Try: 2}); !has[Send](out) {
		t.Fatalf("woken, and did not ask: %v", out)
	}
	return h
}

func refusedBy(try int, by fence.Grant) Answer {
	return Answer{Op: OpAcquire, Try: try, Err: &authority.HeldError{State: authority.State{
		Name: "job", Held: true, Grant: by, Length: 10 * s, Left: 10 * s}}}
}

// ofPlace is the answer to a try that grants the place of the first one.
func ofPlace(h *Holder, try int, from Instant) Answer {
	a := Answer{Op: OpAcquire, Try: try, Grant: grantOf(h, 1)}
	a.Grant.From = from
	return a
}

// releases lists the grants whose release was sent.
func releases(effects []Effect) (all []fence.Grant) {
	for _, e := range effects {
		if send, ok := e.(Send); ok && send.Op == OpRelease {
			all = append(all, send.Grant.Grant)
		}
	}
	return all
}

func TestAGrantUnderTheNonceOfAnEarlierTryOfTheWaitIsTaken(t *testing.T) {
	h := secondTry(t)
	out := h.Step(at(60*s), ofPlace(h, 3, at(59*s)))
	if g, ok := find[Granted](out); !ok || g.Stop != at(67*s) || g.Grant.Nonce != h.nonce(1) || has[Send](out) {
		t.Fatalf("%v, want it granted until 59 + 10 - 2", out)
	}
	renewal, ok := find[Send](h.Step(at(62*s), Tick{}))
	if !ok || renewal.Op != OpRenew || renewal.Grant.Nonce != h.nonce(1) {
		t.Fatalf("renewed as %v", renewal)
	}
	g := h.grant
	g.From = at(61 * s)
	if kept, ok := find[Kept](h.Step(at(62*s), Answer{Op: OpRenew, Try: renewal.Try, Grant: g})); !ok || kept.Stop != at(69*s) {
		t.Fatalf("kept until %v, want 61 + 10 - 2", kept.Stop)
	}
	if all := releases(h.Step(at(63*s), Release{})); len(all) != 1 || all[0] != g.Grant {
		t.Fatalf("released was %v, held %v", all, g.Grant)
	}
}

func TestAnOlderGrantThatDoesNotSaySinceWhenIsGivenBack(t *testing.T) {
	h := secondTry(t)
	out := h.Step(at(60*s), ofPlace(h, 3, 0))
	if all := releases(out); has[Granted](out) || len(all) != 1 || all[0] != grantOf(h, 1).Grant {
		t.Fatalf("%v: it may have been granted up to a minute ago", out)
	}
}

func TestTheGrantOfAPlaceIsTakenAfterALostAnswer(t *testing.T) {
	h := secondTry(t)
	h.Step(at(61500*s/1000), Answer{Op: OpAcquire, Try: 3, Err: context.DeadlineExceeded})
	out := h.Step(at(62*s), Tick{})
	again, ok := find[Send](out)
	if !ok || again.Op != OpAcquire {
		t.Fatalf("after the lost answer: %v", out)
	}
	if g, ok := find[Granted](h.Step(at(62*s), ofPlace(h, again.Try, at(61*s)))); !ok || g.Stop != at(69*s) {
		t.Fatalf("granted until %v, want 61 + 10 - 2", g.Stop)
	}
	// The lost answer was only late: it is the same grant, and changes nothing.
	if out := h.Step(at(63*s), ofPlace(h, 3, at(60*s))); len(out) != 0 || !h.Holding() || h.Stop() != at(69*s) {
		t.Fatalf("the late answer made %v", out)
	}
}

// An answer that left before the release may still name what was released.
func TestWhatWasGivenBackIsNeverTakenAgain(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		h := secondTry(t)
		// No answer for a time-out: a second request is under way beside the first.
		out := h.Step(at(61500*s/1000), Tick{})
		second, ok := find[Send](out)
		if !ok || second.Op != OpAcquire {
			t.Fatalf("%v", out)
		}
		out = h.Step(at(61600*s/1000), ofPlace(h, 3, at(50*s)))
		release, _ := find[Send](out)
		if all := releases(out); len(all) != 1 {
			t.Fatalf("too late, and not given back: %v", out)
		}
		if confirmed {
			h.Step(at(61700*s/1000), Answer{Op: OpRelease, Try: release.Try})
		}
		if out := h.Step(at(61800*s/1000), ofPlace(h, second.Try, at(61*s))); has[Granted](out) || h.Holding() {
			t.Fatalf("confirmed %v: took the grant that is being released: %v", confirmed, out)
		}
		// A new grant is taken, under whichever nonce.
		out = h.Step(at(62500*s/1000), Tick{})
		third, ok := find[Send](out)
		if !ok || third.Op != OpAcquire {
			t.Fatalf("confirmed %v: does not ask again: %v", confirmed, out)
		}
		a := ofPlace(h, third.Try, at(62500*s/1000))
		a.Grant.Token++
		if out := h.Step(at(62600*s/1000), a); !has[Granted](out) {
			t.Fatalf("confirmed %v: a later grant of the same place: %v", confirmed, out)
		}
	}
}

func TestACancelledWaitGivesBackWhatItsPlaceHasBecome(t *testing.T) {
	h := secondTry(t)
	h.Step(at(61*s), Cancel{errors.New("gone")})
	out := h.Step(at(61*s), Answer{Op: OpAcquire, Try: 3, Err: context.Canceled})
	leave, ok := find[Send](out)
	if !ok || leave.Op != OpLeave {
		t.Fatalf("cancelled: %v", out)
	}
	out = h.Step(at(61*s), Answer{Op: OpLeave, Try: leave.Try})
	look, ok := find[Send](out)
	if !ok || look.Op != OpInspect {
		t.Fatalf("the try has no definite answer, and nobody looks: %v", out)
	}
	held := authority.State{Name: "job", Held: true, Grant: grantOf(h, 1).Grant, Length: 10 * time.Second}
	out = h.Step(at(61*s), Answer{Op: OpInspect, Try: look.Try, State: held})
	if all := releases(out); len(all) != 1 || all[0] != held.Grant {
		t.Fatalf("held under the first try's nonce: %v", out)
	}
	release, _ := find[Send](out)
	if out := h.Step(at(61*s), Answer{Op: OpRelease, Try: release.Try}); !has[Quit](out) {
		t.Fatalf("%v", out)
	}
}

func TestAnAnswerAfterTheCancelIsGivenBackUnderItsOwnNonce(t *testing.T) {
	h := secondTry(t)
	h.Step(at(61*s), Cancel{errors.New("gone")})
	out := h.Step(at(61*s), ofPlace(h, 3, at(60*s)))
	if all := releases(out); len(all) != 1 || all[0] != grantOf(h, 1).Grant || has[Granted](out) {
		t.Fatalf("%v", out)
	}
}

func TestARenewalGoesAlongOnlyIfItFallsDueSoon(t *testing.T) {
	h := held(t)
	if out := h.Step(at(2800*s/1000), RenewEarly{}); len(out) != 0 {
		t.Fatalf("200 ms early: %v", out)
	}
	send, ok := find[Send](h.Step(at(2850*s/1000), RenewEarly{}))
	if !ok || send.Op != OpRenew || send.Deadline != at(4350*s/1000) {
		t.Fatalf("150 ms early: %v", send)
	}
	if out := h.Step(at(2900*s/1000), RenewEarly{}); len(out) != 0 {
		t.Fatalf("one is under way: %v", out)
	}
	if kept, _ := find[Kept](h.Step(at(2900*s/1000), Answer{Op: OpRenew, Try: send.Try, Grant: h.grant})); kept.Stop != at(10850*s/1000) {
		t.Fatalf("kept until %v", kept.Stop)
	}
	h.Step(at(3*s), Cancel{errors.New("gone")})
	if out := h.Step(at(5800*s/1000), RenewEarly{}); len(out) != 0 {
		t.Fatalf("a lease that is over: %v", out)
	}
}

func TestAnEarlyRenewalDoesNotJudgeTheWorkBeforeItsTime(t *testing.T) {
	cfg := Config{Name: "job", Prefix: "a", Times: Times{}.WithDefaults(), BeatWithin: 2700 * time.Millisecond}
	h := NewHolder(cfg)
	h.Step(0, Start{})
	h.Step(0, granted(h, 1))
	if out := h.Step(at(2850*s/1000), RenewEarly{}); len(out) != 0 {
		t.Fatalf("no beat yet, but there is time: %v", out)
	}
	h.Step(at(2900*s/1000), Beat{At: at(2900 * s / 1000)})
	if out := h.Step(at(3*s), Tick{}); !has[Send](out) || has[Starved](out) {
		t.Fatalf("it beat in time: %v", out)
	}
}
