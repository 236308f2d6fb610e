package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"pgregory.net/rapid"
)

var epoch3 = fence.Grant{Token: 3, Nonce: "w"}

func incumbent(without Rules) *Incumbent {
	return NewIncumbent(IncumbentConfig{Grant: epoch3, Length: 10 * sec, Margin: 2 * sec, Refresh: 3 * sec, Without: without})
}

// TestARightCountsFromWhenTheFlagWasAsked, and a late answer never moves it back.
func TestARightCountsFromWhenTheFlagWasAsked(t *testing.T) {
	for _, c := range []struct {
		without Rules
		stop    time.Duration
	}{{0, 8 * sec}, {RuleMargin, 10 * sec}} {
		i := incumbent(c.without)
		if r, ok := find[ReadFlag](i.Step(0, Start{})); !ok || r.Try != 1 || i.Holding(0) {
			t.Fatal("it begins by reading the flag")
		}
		k, ok := find[Kept](i.Step(at(sec), FlagRead{Try: 1, Grant: epoch3}))
		if !ok || k.Stop != at(c.stop) || !i.Holding(at(c.stop-1)) || i.Holding(at(c.stop)) {
			t.Errorf("without %q: %v", c.without, k)
		}
	}
	i := incumbent(0)
	i.Step(0, Start{})
	if r, ok := find[ReadFlag](i.Step(at(3*sec), Tick{})); !ok || r.Try != 2 {
		t.Fatal("not read again")
	}
	i.Step(at(ms(3100)), FlagRead{Try: 2, Grant: epoch3})
	i.Step(at(ms(3200)), FlagRead{Try: 1, Grant: epoch3})
	if i.Stop() != at(11*sec) {
		t.Errorf("the stop time is %v after a late answer", i.Stop())
	}
	if out := i.Step(at(ms(3300)), FlagRead{Try: 9, Grant: epoch3}); has[Kept](out) {
		t.Error("an answer to nothing")
	}
	i.Step(at(4*sec), FlagRead{Try: 2, Err: errLost})
	if !i.Holding(at(5 * sec)) {
		t.Error("a lost answer ends the right")
	}
}

// TestARightEnds when the flag names another, when it is over by the writer's own
// clock, and when the store refuses it; never before, and only once.
func TestARightEnds(t *testing.T) {
	for _, c := range []struct {
		at   time.Duration
		ev   Event
		want Reason
	}{
		{4 * sec, FlagRead{Try: 2, Grant: epoch4}, TakenOver}, {8 * sec, Lapse{}, Expired}, {4 * sec, Cancel{errors.New("refused")}, Cancelled}, {ms(7999), Lapse{}, 0},
	} {
		i := incumbent(0)
		i.Step(0, Start{})
		i.Step(0, FlagRead{Try: 1, Grant: epoch3})
		i.Step(at(3*sec), Tick{})
		e, _ := find[Ended](i.Step(at(c.at), c.ev))
		if e.End.Reason != c.want {
			t.Errorf("%+v: %v", c, e)
		}
		if c.want == 0 {
			continue
		}
		out := append(i.Step(at(c.at), FlagRead{Try: 2, Grant: epoch3}), i.Step(at(20*sec), Tick{})...)
		if has[Kept](out) || has[ReadFlag](out) || has[Ended](out) || i.Holding(at(c.at)) {
			t.Errorf("%+v: after the end: %v", c, out)
		}
	}
}

func TestAnIncumbentsSettings(t *testing.T) {
	good := IncumbentConfig{Grant: epoch3, Length: 10 * sec, Margin: 2 * sec, Refresh: 3 * sec}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []func(*IncumbentConfig){
		func(c *IncumbentConfig) { c.Grant = fence.Grant{} }, func(c *IncumbentConfig) { c.Margin = c.Length }, func(c *IncumbentConfig) { c.Refresh = 8 * sec },
	} {
		c := good
		bad(&c)
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// rightWorld flips the flag at some time, and looks whether the old writer's right
// has ended when a successor has waited for long enough.
func rightWorld(seed uint64, without Rules) *world {
	w := newWorld(seed)
	names := epoch3
	b := w.body("old")
	i := incumbent(without)
	b.hear = func(now Instant, ev Event) {
		for _, e := range i.Step(now, ev) {
			switch e := e.(type) {
			case Arm:
				b.arm(e.At)
			case ReadFlag:
				b.call(0, func(reply func(Event)) { reply(FlagRead{Try: e.Try, Grant: names}) }, nil)
			}
		}
	}
	b.naps(60 * sec)
	b.post(Start{})
	least := SuccessorConfig{Longest: 10 * sec, Margin: 2 * sec}.LeastWait()
	w.after(w.between(1000, 50000), func() {
		names = epoch4
		w.after(time.Duration(float64(least)*(1-1.0/RateError)), func() { // the successor's clock is fast
			b.w.say("the successor writes")
			if i.Holding(b.clock()) {
				w.broken("the old writer has its right until %v, and its clock says %v", i.Stop(), b.clock())
			}
		})
	})
	w.run(80 * sec)
	return w
}

// TestAnOldWriterHasStoppedWhenASuccessorBegins, and without the margin it has not.
func TestAnOldWriterHasStoppedWhenASuccessorBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if w := rightWorld(rapid.Uint64().Draw(t, "seed"), 0); w.wrong != "" {
			t.Fatal(w.story())
		}
	})
	seed, w := firstBroken(rightWorld, RuleMargin, 3000)
	if w == nil {
		t.Fatal("without the margin no world breaks")
	}
	t.Logf("without the margin world %d breaks: %s", seed, w.wrong)
}
