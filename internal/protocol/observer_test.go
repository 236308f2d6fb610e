package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
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
	tape    *tape
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
	out := u.o.Step(u.r.now, ev)
	u.r.tape.record(u.r.now, u.o.cfg.Holder, ev, out)
	for _, e := range out {
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

// TestTheMarginPaysForTheClocks: the holder's clock is slow and the claimant's
// fast, both at their worst rate, and no message takes any time.
func TestTheMarginPaysForTheClocks(t *testing.T) {
	run := func(without Rules) (overlap time.Duration) {
		r := &register{t: t}
		times := Times{Length: 10 * sec, Margin: ms(22), Renew: 3 * sec, Timeout: ms(1500)}
		a := r.user(ObserverConfig{Config: Config{Prefix: "a", Times: times, Without: without}})
		a.step(Start{})
		a.paused = true
		d := r.user(ObserverConfig{Config: Config{Prefix: "d", Times: times}})
		d.step(Start{})
		r.to(11 * sec)
		stop := float64(a.o.Stop()) * RateError / (RateError - 1) // in true time
		claim := float64(d.claimed) * RateError / (RateError + 1)
		return time.Duration(stop-claim) + StopLatency
	}
	if over := run(0); over > 0 {
		t.Errorf("an overlap of %v with the least margin", over)
	}
	if over := run(RuleMargin); over < ms(20) {
		t.Errorf("without the rule the overlap is %v, want 20 ms", over)
	}
}

// TestALostAnswerIsSettledByItsNonce: the swap was carried out, the answer was
// lost, and the next look finds it.
func TestALostAnswerIsSettledByItsNonce(t *testing.T) {
	r := &register{t: t}
	a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
	a.lose = 1 // of the claim
	a.step(Start{})
	r.to(sec)
	if !a.o.Holding() || a.o.Stop() != at(8*sec) || r.last != 1 {
		t.Fatalf("holding %v until %v after %d writes; the lease counts from the claim at 0", a.o.Holding(), a.o.Stop(), r.last)
	}
	a.lose = 1 // of the renewal at 3
	r.to(ms(3600))
	if a.o.Stop() != at(11*sec) || r.last != 2 {
		t.Fatalf("stop %v after %d writes", a.o.Stop(), r.last)
	}
	a.lose = 1 // of the release
	a.step(Release{})
	r.to(5 * sec)
	if !has[Settled](a.effects) || !has[Quit](a.effects) || r.record.Holder != "" || r.record.Grant.Token != 1 {
		t.Fatalf("said %v; the record is %+v", a.effects, r.record)
	}
	if s, _ := find[Settled](a.effects); s.Err != nil {
		t.Fatal(s.Err)
	}
}

// TestAClaimWaitsForTheLongestLeaseThatTheRecordCanMean.
func TestAClaimWaitsForTheLongestLease(t *testing.T) {
	for _, c := range []struct{ record, longest, claims time.Duration }{
		{10 * sec, 0, 10 * sec}, {20 * sec, 0, 20 * sec}, {5 * sec, 30 * sec, 30 * sec}, {10 * sec, 3 * sec, 10 * sec},
	} {
		r := &register{t: t, version: 1, last: 1, record: Record{Holder: "x", Length: c.record, Write: "x-1"}}
		d := r.user(ObserverConfig{Longest: c.longest, Config: Config{Prefix: "d"}})
		d.step(Start{})
		r.to(40 * sec)
		if d.claimed != at(c.claims) {
			t.Errorf("a record of %v where %v is the longest: claimed at %v, want %v", c.record, c.longest, d.claimed, c.claims)
		}
		r = &register{t: t, version: 1, last: 1, record: Record{Holder: "x", Length: c.record, Write: "x-1"}}
		d = r.user(ObserverConfig{Longest: c.longest, OwnWait: true, Config: Config{Prefix: "e"}})
		d.step(Start{})
		r.to(40 * sec)
		if d.claimed != at(10*sec) { // the wrong order, which a simulator shows
			t.Errorf("with its own wait: claimed at %v", d.claimed)
		}
	}
}

// TestEveryWriteIsFresh: no two records that were written are alike, so none
// shares an entity tag with another.
func TestEveryWriteIsFresh(t *testing.T) {
	r := &register{t: t}
	a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
	a.step(Start{})
	r.to(59 * sec)
	seen := map[string]bool{}
	for _, e := range a.effects {
		if s, ok := e.(Swap); ok {
			if seen[s.Record.Write] {
				t.Fatalf("%v is written twice", s.Record)
			}
			seen[s.Record.Write] = true
		}
	}
	if len(seen) != 20 {
		t.Fatalf("%d writes in 59 s, want one every 3 s", len(seen))
	}
}

// TestAHolderThatWasTakenOverStops: its renewal meets another version, and the
// record says by whom.
func TestAHolderThatWasTakenOverStops(t *testing.T) {
	r := &register{t: t}
	a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
	a.step(Start{})
	r.to(sec)
	r.last++
	r.version, r.record = r.last, Record{Holder: "op", Grant: fence.Grant{Token: 9, Nonce: "o-1"}, Length: sec, Write: "o-1"}
	r.to(4 * sec)
	e, ok := find[Ended](a.effects)
	if !ok || e.End.Reason != TakenOver || e.End.By != 9 || a.o.Holding() {
		t.Fatalf("said %v", a.effects)
	}
	a.step(Release{})
	if r.record.Holder != "op" {
		t.Fatal("the release took away what another holds")
	}
}

// TestTheObserversWaitEnds, by its bound or its caller, and leaves nothing.
func TestTheObserversWaitEnds(t *testing.T) {
	for name, end := range map[string]func(*user){
		"wait over": func(*user) {},
		"cancelled": func(u *user) { u.step(Cancel{errLost}) },
	} {
		r := &register{t: t, version: 1, last: 1, record: Record{Holder: "x", Length: 10 * sec, Write: "x-1"}}
		u := r.user(ObserverConfig{Config: Config{Prefix: "d", WaitUntil: at(4 * sec)}})
		u.step(Start{})
		r.to(3 * sec)
		end(u)
		r.to(20 * sec)
		if e, ok := find[Ended](u.effects); !ok || e.End.Reason.String() != name || !has[Quit](u.effects) || r.record.Holder != "x" {
			t.Errorf("%s: said %v", name, u.effects)
		}
	}
}

// TestAClaimThatNobodyWantsIsGivenBack: it was carried out, its answer was lost,
// and the caller went away.
func TestAClaimThatNobodyWantsIsGivenBack(t *testing.T) {
	r := &register{t: t}
	u := r.user(ObserverConfig{Config: Config{Prefix: "d"}})
	u.lose = 1
	u.step(Start{})
	u.step(Cancel{errLost})
	r.to(5 * sec)
	if r.record.Holder != "" || r.version != 2 || !has[Quit](u.effects) || has[Settled](u.effects) || has[Granted](u.effects) {
		t.Fatalf("said %v; the record is %+v", u.effects, r.record)
	}
}

func TestAnObserversWorkHasToBeat(t *testing.T) {
	for _, without := range []Rules{0, RuleBeat} {
		r := &register{t: t}
		u := r.user(ObserverConfig{Config: Config{Prefix: "d", BeatWithin: 2 * sec, Without: without}})
		u.step(Start{})
		r.to(30 * sec)
		if e, ok := find[Ended](u.effects); ok != (without == 0) || ok && e.End.Reason != WorkStopped {
			t.Errorf("without %q: said %v", without, u.effects)
		}
	}
}

// TestNobodyWaitsForItsOwnGhost: the first claim is slow, the second one meets
// it in the register.
func TestNobodyWaitsForItsOwnGhost(t *testing.T) {
	o := NewObserver(ObserverConfig{Holder: "a", Config: Config{Name: "job", Prefix: "a", Wait: true, Times: Times{}.WithDefaults()}})
	load := func(now time.Duration, ev Event) int {
		t.Helper()
		l, ok := find[Load](o.Step(at(now), ev))
		if !ok {
			t.Fatalf("at %v: no look", now)
		}
		return l.Try
	}
	try := load(0, Start{})
	first, _ := find[Swap](o.Step(0, Loaded{Try: try}))
	o.Step(at(ms(1500)), Swapped{Try: first.Try, Err: errLost})
	try = load(2*sec, Tick{})
	second, _ := find[Swap](o.Step(at(2*sec), Loaded{Try: try})) // still nothing
	try = load(3*sec, Swapped{Try: second.Try, Err: ErrConflict})
	out := o.Step(at(3*sec), Loaded{Try: try, Record: first.Record, Version: "v1"})
	if g, ok := find[Granted](out); !ok || g.Stop != at(8*sec) || g.Grant.Grant != first.Record.Grant {
		t.Fatalf("its own claim of 0 s is in the register: %v", out)
	}
}

// TestAReleaseAfterALostRenewalIsSent: the look finds the renewal, not a release.
func TestAReleaseAfterALostRenewalIsSent(t *testing.T) {
	r := &register{t: t}
	a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
	a.step(Start{})
	a.lose = 1
	r.to(ms(3100))
	a.step(Release{})
	if r.record.Holder != "" || !has[Settled](a.effects) {
		t.Fatalf("said %v; the record is %+v", a.effects, r.record)
	}
}
