package protocol

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// voter is a candidate at a service that answers at once.
type voter struct {
	s      *service
	p      *polls
	c      *Candidate
	key    string
	timer  Instant
	queue  []Event
	busy   bool
	watch  Watch
	wakes  int
	lists  int
	led    []fence.Grant
	said   []Effect
	frozen bool
	mute   bool // its requests get no answer
}

// polls is an election at a service.
type polls struct {
	*service
	voters []*voter
	seen   int // removals that were told
	paper  *tape
}

func newPolls(t *testing.T, cfg LessorConfig) *polls { return &polls{service: newService(t, cfg)} }

func (p *polls) voter(name string, without Rules) *voter {
	v := &voter{s: p.service, p: p, key: "e/" + name, c: NewCandidate(CandidateConfig{Config: Config{
		Name: "e/" + name, Prefix: name, Times: Times{}.WithDefaults(), Without: without,
	}})}
	p.voters = append(p.voters, v)
	v.step(Start{})
	return v
}

func (v *voter) step(ev Event) {
	v.queue = append(v.queue, ev)
	for !v.busy && len(v.queue) > 0 {
		ev, v.queue = v.queue[0], v.queue[1:]
		v.busy = true
		out := v.c.Step(v.s.now, ev)
		v.p.paper.record(v.s.now, v.key, ev, out)
		for _, e := range out {
			v.said = append(v.said, e)
			switch e := e.(type) {
			case Send:
				v.send(e)
			case Watch:
				v.watch = e
			case Lead:
				v.led = append(v.led, e.Grant)
			case Arm:
				v.timer = e.At
			}
		}
		v.busy = false
	}
}

func (v *voter) send(s Send) {
	if s.Op == OpList {
		v.lists++
	}
	if v.mute {
		return
	}
	name := v.key
	if s.Op == OpList {
		name = election(name)
	}
	r := v.s.ask(Ask{Op: s.Op, Name: name, Key: s.Key, Nonce: s.Nonce, Length: 10 * sec, Grant: s.Grant.Grant})
	v.queue = append(v.queue, Answer{Op: s.Op, Try: s.Try, Grant: r.Grant, State: r.State, List: r.List, Err: r.Err})
}

// tell wakes whoever watches a key that has gone, or was put ahead.
func (p *polls) tell() {
	for ; p.seen < len(p.removed); p.seen++ {
		gone := p.removed[p.seen]
		for _, v := range p.voters {
			if v.watch.Key == gone.Key && v.watch.Token == gone.Token {
				v.wakes++
				v.step(Woken{})
			}
		}
	}
}

func (p *polls) run(d time.Duration) {
	for {
		next := at(d)
		for _, v := range p.voters {
			if v.timer != 0 && !v.frozen {
				next = min(next, max(v.timer, p.now))
			}
		}
		if p.timer != 0 {
			next = min(next, p.timer)
		}
		p.to(time.Duration(next))
		for _, v := range p.voters {
			if v.timer != 0 && v.timer <= p.now && !v.frozen {
				v.timer = 0
				v.step(Tick{})
			}
		}
		p.tell()
		if next == at(d) && (p.timer == 0 || p.timer > p.now) {
			return
		}
	}
}

func (v *voter) wantLed(epochs ...fence.Token) {
	v.s.t.Helper()
	var got []fence.Token
	for _, g := range v.led {
		got = append(got, g.Token)
	}
	if fmt.Sprint(got) != fmt.Sprint(epochs) {
		v.s.t.Fatalf("at %v %s has led with %v, want %v", v.s.now, v.key, got, epochs)
	}
}

// TestOneCandidateWakesAndLeads: B leads with 12 and dies after its renewal at
// 19.5; C stands behind it, D behind C.
func TestOneCandidateWakesAndLeads(t *testing.T) {
	p := newPolls(t, LessorConfig{})
	p.others(11)
	p.run(ms(13500))
	b := p.voter("b", 0)
	c := p.voter("c", 0)
	d := p.voter("d", 0)
	b.wantLed(12)
	p.run(ms(19600))
	b.frozen = true
	p.run(ms(29400))
	c.wantLed()
	p.run(ms(29500))
	c.wantLed(13)
	d.wantLed()
	if c.wakes != 1 || d.wakes != 0 || d.watch.Key != "e/c" {
		t.Fatalf("c woke %d times, d %d times and watches %v", c.wakes, d.wakes, d.watch)
	}
	b.frozen = false
	p.run(30 * sec)
	if has[Lead](b.said[len(b.said)-1:]) || b.c.h.Holding() || !b.c.Leading().IsZero() {
		t.Fatal("B still leads")
	}
}

// TestADeletionWakesNoHerd counts who is woken, with and without the rule.
func TestADeletionWakesNoHerd(t *testing.T) {
	for _, n := range []int{10, 100} {
		for _, without := range []Rules{0, RulePredecessor} {
			p := newPolls(t, LessorConfig{})
			for i := range n {
				p.voter(fmt.Sprintf("v%04d", i), without)
			}
			before := 0
			for _, v := range p.voters {
				before += v.lists
			}
			p.voters[0].step(Release{})
			p.tell()
			wakes, lists := 0, -before
			for _, v := range p.voters {
				wakes += v.wakes
				lists += v.lists
			}
			want := 1
			if without != 0 {
				want = n - 1
			}
			if wakes != want || lists != want {
				t.Errorf("%d candidates without %q: %d wake and %d look, want %d", n, without, wakes, lists, want)
			}
			p.voters[1].wantLed(2)
		}
	}
}

// TestAGrantOutOfOrderLeavesAFloor: A (1) hands over to the heir C (3), past B
// (2). When C has gone, B comes first with a token that the resource refuses.
func TestAGrantOutOfOrderLeavesAFloor(t *testing.T) {
	for _, c := range []struct {
		without Rules
		epoch   fence.Token
	}{{0, 6}, {RuleFloor, 2}} {
		p := newPolls(t, LessorConfig{Without: c.without})
		a, b, heir := p.voter("a", c.without), p.voter("b", c.without), p.voter("c", c.without)
		a.wantLed(1)
		a.step(Pass{Key: "e/c"})
		if !has[Settled](a.said) || !a.c.Leading().IsZero() {
			t.Fatalf("A said %v", a.said)
		}
		heir.step(Woken{}) // its own key was put ahead
		p.tell()
		heir.wantLed(4)
		b.wantLed()
		if b.watch.Key != "e/c" {
			t.Fatalf("B watches %v", b.watch)
		}
		heir.step(Release{})
		p.tell()
		b.wantLed(c.epoch)
	}
}

// TestAPassToSomebodyWhoHasGoneIsARelease: the line decides.
func TestAPassToSomebodyWhoHasGoneIsARelease(t *testing.T) {
	p := newPolls(t, LessorConfig{})
	a, b := p.voter("a", 0), p.voter("b", 0)
	a.step(Pass{Key: "e/nobody"})
	p.tell()
	if !has[Settled](a.said) {
		t.Fatalf("A said %v", a.said)
	}
	b.wantLed(2)
}

// TestALostPassIsTriedAgain, and never after the lease.
func TestALostPassIsTriedAgain(t *testing.T) {
	p := newPolls(t, LessorConfig{})
	a, b := p.voter("a", 0), p.voter("b", 0)
	a.mute = true
	a.step(Pass{Key: "e/b"})
	for !has[Quit](a.said) && p.now < at(60*sec) {
		p.run(time.Duration(p.now) + ms(1500))
		if a.c.asked != 0 {
			a.step(Answer{Op: OpPass, Try: a.c.asked, Err: errors.New("cut")})
		}
	}
	passes := 0
	for _, e := range a.said {
		if s, ok := e.(Send); ok && s.Op == OpPass {
			passes++
		}
	}
	if passes < 3 || !has[Quit](a.said) || p.now > at(15*sec) {
		t.Fatalf("%d passes until %v; A said %v", passes, p.now, a.said)
	}
	b.wantLed(2)
}

// TestTwoKeysOfOneTokenDoNotLead: each would find itself first.
func TestTwoKeysOfOneTokenDoNotLead(t *testing.T) {
	c := NewCandidate(CandidateConfig{Config: Config{Name: "e/a", Prefix: "a", Times: Times{}.WithDefaults()}})
	send, _ := find[Send](c.Step(0, Start{}))
	mine := fence.Grant{Token: 7, Nonce: send.Nonce}
	out := c.Step(0, Answer{Op: OpAcquire, Try: send.Try, Grant: authority.Grant{Grant: mine, Name: "e/a", Length: 10 * sec}})
	var list Send
	for _, e := range out {
		if s, ok := e.(Send); ok && s.Op == OpList {
			list = s
		}
	}
	line := Listed{Keys: []Place{{Key: "e/a", Grant: mine, Token: 7}, {Key: "e/b", Grant: fence.Grant{Token: 7, Nonce: "b-1"}, Token: 7}}}
	out = c.Step(0, Answer{Op: OpList, Try: list.Try, List: line})
	if has[Lead](out) || !has[Trouble](out) {
		t.Fatalf("%v", out)
	}
}

// TestALookThatIsOlderThanItsWakingIsNotUsed: the key before it went after the
// look was made, and the watch has told of it.
func TestALookThatIsOlderThanItsWakingIsNotUsed(t *testing.T) {
	p := newPolls(t, LessorConfig{})
	p.voter("a", 0)
	b := p.voter("b", 0)
	b.mute = true
	b.step(Woken{})
	try := b.c.asked
	b.step(Woken{})
	b.mute = false
	lists := b.lists
	b.step(Answer{Op: OpList, Try: try, List: Listed{}})
	if b.lists != lists+1 {
		t.Fatalf("%d looks after the answer, want one more than %d", b.lists, lists)
	}
}

// A key goes while the candidate looks at the line: the look that is under way is
// older than the news, so it decides nothing, and another look follows.
func TestALookThatIsOlderThanItsNewsDecidesNothing(t *testing.T) {
	c := NewCandidate(CandidateConfig{Config: Config{Name: "e/b", Prefix: "b", Times: Times{}.WithDefaults()}})
	c.Step(0, Start{})
	mine := authority.Grant{Grant: fence.Grant{Token: 9, Nonce: "b-1"}, Name: "e/b", Length: 10 * sec}
	look, ok := find[Send](c.Step(0, Answer{Op: OpAcquire, Try: 1, Grant: mine}))
	if !ok || look.Op != OpList {
		t.Fatalf("after its key was made it did not look at the line: %v", look)
	}
	c.Step(1, Woken{})
	old := Listed{Keys: []Place{{Key: "e/a", Token: 7}, {Key: "e/b", Token: 9}}}
	out := c.Step(2, Answer{Op: OpList, Try: look.Try, List: old})
	if again, ok := find[Send](out); !ok || again.Op != OpList || has[Watch](out) || has[Lead](out) {
		t.Fatalf("the old look had its say: %v", out)
	}
}
