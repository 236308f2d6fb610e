package protocol

import (
	"fmt"
	"testing"
	"time"
)

// register is a compare-and-swap register that answers at once, and the machines
// that use it.
type register struct {
	t       *testing.T
	now     Instant
	record  Record
	version int // 0: no record
	last    int
	loads   int
	users   []*user
}

// user is one machine at the register.
type user struct {
	r       *register
	o       *Observer
	ahead   time.Duration // of its wall clock
	timer   Instant
	paused  bool
	lose    int // answers of swaps that are lost from now on
	effects []Effect
	queue   []Event
	busy    bool
	claimed Instant
}

func (r *register) user(cfg ObserverConfig) *user {
	cfg.Name, cfg.Wait = "job", true
	if cfg.Holder == "" {
		cfg.Holder = cfg.Prefix
	}
	if cfg.Times == (Times{}) {
		cfg.Times = Times{}.WithDefaults()
	}
	u := &user{r: r, o: NewObserver(cfg)}
	r.users = append(r.users, u)
	return u
}

func (r *register) tag() string {
	if r.version == 0 {
		return ""
	}
	return fmt.Sprintf("v%d", r.version)
}

func (r *register) to(d time.Duration) {
	for {
		next := at(d)
		for _, u := range r.users {
			if u.timer != 0 && !u.paused {
				next = min(next, max(u.timer, r.now))
			}
		}
		r.now = next
		fired := false
		for _, u := range r.users {
			if u.timer != 0 && u.timer <= r.now && !u.paused {
				u.timer, fired = 0, true
				u.step(Tick{})
			}
		}
		if !fired && r.now == at(d) {
			return
		}
	}
}

// step hands over an event, and then the answers to what it asked for.
func (u *user) step(ev Event) {
	u.queue = append(u.queue, ev)
	for !u.busy && len(u.queue) > 0 {
		ev, u.queue = u.queue[0], u.queue[1:]
		u.busy = true
		u.one(ev)
		u.busy = false
	}
}

func (u *user) one(ev Event) {
	for _, e := range u.o.Step(u.r.now, ev) {
		u.effects = append(u.effects, e)
		switch e := e.(type) {
		case Load:
			u.r.loads++
			u.step(Loaded{Try: e.Try, Record: u.r.record, Version: u.r.tag(), Wall: u.r.now.Add(u.ahead)})
		case Swap:
			u.swap(e)
		case Arm:
			u.timer = e.At
		case Granted:
			u.claimed = u.r.now
		}
	}
}

func (u *user) swap(e Swap) {
	r := u.r
	if e.If != r.tag() && !e.Any {
		u.step(Swapped{Try: e.Try, Err: fmt.Errorf("swap: %w", ErrConflict)})
		return
	}
	r.last++
	r.version, r.record = r.last, e.Record
	r.record.Until = r.now.Add(u.ahead + e.Record.Length)
	if e.Delete {
		r.version, r.record = 0, Record{}
	}
	if u.lose > 0 {
		u.lose--
		u.step(Swapped{Try: e.Try, Err: fmt.Errorf("the answer was lost")})
		return
	}
	u.step(Swapped{Try: e.Try, Version: r.tag()})
}

// TestAFastClockClaimsNothingEarlyByTheClockFreeRule: A acquires at 0, renews at
// 3 and pauses at 4; its right ends at 11. D's wall clock is 3 s fast.
func TestAFastClockClaimsNothingEarlyByTheClockFreeRule(t *testing.T) {
	for _, c := range []struct {
		name string
		d    ObserverConfig
		want time.Duration
	}{
		{"no margin: half a second of overlap", ObserverConfig{Config: Config{Without: RuleClockFree}}, ms(10500)},
		{"a margin larger than the offset: a gap", ObserverConfig{Config: Config{Without: RuleClockFree}, ClaimMargin: ms(3500)}, ms(13500)},
		{"clock-free: a gap", ObserverConfig{}, ms(13500)},
	} {
		r := &register{t: t}
		a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
		a.step(Start{})
		c.d.Prefix = "d"
		d := r.user(c.d)
		d.ahead = 3 * sec
		r.to(ms(500))
		d.step(Start{})
		r.to(4 * sec)
		a.paused = true
		if a.o.Stop() != at(11*sec) {
			t.Fatalf("%s: A's right ends at %v, want 11 s", c.name, a.o.Stop())
		}
		r.to(20 * sec)
		if d.claimed != at(c.want) {
			t.Errorf("%s: D claims at %v, want %v", c.name, d.claimed, c.want)
		}
	}
}

// TestEpochsOutliveAReleaseButNotTheRecord: claim, claim, release, claim, the
// store deletes the record, claim.
func TestEpochsOutliveAReleaseButNotTheRecord(t *testing.T) {
	epochs := func(without Rules) string {
		r := &register{t: t}
		claim := func(name string) *user {
			u := r.user(ObserverConfig{Config: Config{Prefix: name, Without: without}})
			u.step(Start{})
			r.to(time.Duration(r.now) + 11*sec)
			return u
		}
		s := ""
		a := claim("a")
		s += fmt.Sprint(a.o.grant.Token)
		a.paused = true
		b := claim("b")
		s += fmt.Sprint(b.o.grant.Token)
		b.step(Release{})
		s += fmt.Sprintf(" (%d)", r.record.Grant.Token)
		c := claim("c")
		s += fmt.Sprintf(" %d", c.o.grant.Token)
		c.paused = true
		r.version, r.record = 0, Record{} // its time to live is over
		return s + fmt.Sprint(claim("d").o.grant.Token)
	}
	if got := epochs(0); got != "12 (2) 31" {
		t.Errorf("epochs %s, want 1, 2, 2 kept, 3, and 1 again after the deletion", got)
	}
	if got := epochs(RuleKeepToken); got != "12 (0) 11" {
		t.Errorf("epochs without the rule %s, want a 1 after the release too", got)
	}
}
