package protocol

import (
	"fmt"
	"testing"
	"time"
)

// hand drives one holder at a service that answers at once.
type hand struct {
	s     *service
	h     *Holder
	timer Instant
	cut   bool // its requests get lost
	stops []Instant
	said  []Effect
}

func (s *service) hand(name string) *hand {
	d := &hand{s: s, h: NewHolder(Config{Name: "job", Prefix: name, Times: Times{}.WithDefaults(), Wait: true})}
	d.step(s.now, Start{})
	return d
}

func (d *hand) step(now Instant, ev Event) {
	queue := []Event{ev}
	for len(queue) > 0 {
		out := d.h.Step(now, queue[0])
		queue = queue[1:]
		for _, e := range out {
			d.said = append(d.said, e)
			switch e := e.(type) {
			case Send:
				if !d.cut {
					r := d.s.ask(Ask{Op: e.Op, Name: "job", Nonce: e.Nonce, Length: 10 * sec, Grant: e.Grant.Grant})
					queue = append(queue, Answer{Op: e.Op, Try: e.Try, Grant: r.Grant, State: r.State, Err: r.Err})
				}
			case Granted:
				d.stops = append(d.stops, e.Stop)
			case Kept:
				d.stops = append(d.stops, e.Stop)
			case Arm:
				d.timer = e.At
			}
		}
	}
}

// run lets the holder live until a time; a paused one does not.
func (d *hand) run(until time.Duration) {
	for d.timer != 0 && d.timer <= at(until) {
		d.s.to(time.Duration(max(d.timer, d.s.now)))
		d.timer = 0
		d.step(d.s.now, Tick{})
	}
	d.s.to(until)
}

func (d *hand) wantStops(want ...time.Duration) {
	d.s.t.Helper()
	var stops []Instant
	for _, w := range want {
		stops = append(stops, at(w))
	}
	if fmt.Sprint(d.stops) != fmt.Sprint(stops) {
		d.s.t.Fatalf("at %v the stop times were %v, want %v", d.s.now, d.stops, stops)
	}
}

// TestTheBillingStoryAtItsHolders is the story as its three workers live it.
func TestTheBillingStoryAtItsHolders(t *testing.T) {
	s := newService(t, LessorConfig{})
	a := s.hand("a")
	a.run(4 * sec)
	a.wantStops(8*sec, 11*sec)
	s.to(ms(13500)) // A is paused; its key goes at 13
	b := s.hand("b")
	b.run(19 * sec)
	b.wantStops(ms(21500), ms(24500))
	a.step(s.now, Tick{}) // A wakes, and learns by its own clock alone
	if e, ok := find[Ended](a.said); !ok || e.End.Reason != Expired || a.h.Holding() {
		t.Fatalf("A said %v", a.said)
	}
	b.run(ms(20500)) // and dies at 21
	b.wantStops(ms(21500), ms(24500), ms(27500))
	s.to(ms(29499))
	s.wantDeadline("job", ms(29500))
	s.to(ms(40200))
	c := s.hand("c")
	c.run(ms(46500))
	c.wantStops(ms(48200), ms(51200), ms(54200))
	s.to(ms(49100)) // the leader dies at 47; the next one leads now
	s.promote()
	s.wantDeadline("job", ms(59100))
	c.run(ms(49200))
	if last := c.stops[len(c.stops)-1]; last != at(ms(57200)) {
		t.Fatalf("C's stop time is %v, want 57.2 s", last)
	}
	s.wantDeadline("job", ms(59200))
	s.to(52 * sec)
	c.step(s.now, Release{})
	if _, held := s.l.Deadline("job"); held || !has[Settled](c.said) {
		t.Fatalf("C said %v", c.said)
	}
}

// TestAWallClockThatStepsBackKeepsAZombieAlive: B's last renewal is at 13.5; at
// 16 its wall clock steps back 3 s. The authority lets go at 23.5.
func TestAWallClockThatStepsBackKeepsAZombieAlive(t *testing.T) {
	for _, c := range []struct {
		step, ends time.Duration
	}{{0, ms(21500)}, {3 * sec, ms(24500)}} {
		s := newService(t, LessorConfig{})
		s.to(ms(13500))
		b := s.hand("b")
		b.cut = true
		clock := func(now time.Duration) Instant {
			if now >= 16*sec {
				now -= c.step
			}
			return at(now)
		}
		for now := ms(13500); b.h.Holding(); now += ms(100) {
			if b.timer != 0 && clock(now) >= b.timer {
				b.step(clock(now), Tick{})
			}
			if now > 30*sec {
				t.Fatal("it never ends")
			}
			if !b.h.Holding() && now != c.ends {
				t.Errorf("a clock that steps back by %v: the lease ends at %v, want %v", c.step, now, c.ends)
			}
		}
	}
}
