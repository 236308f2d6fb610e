package world

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Clock is one clock of one machine. Its readings are instants of its own: the
// reading at true time t is offset + t, faster or slower by the rate, and
// stopped while it is frozen.
type Clock struct {
	m      *Machine
	from   time.Duration     // true time of the last change
	base   authority.Instant // reading at that time
	ppm    int64             // how much faster than true time, in millionths
	frozen bool
	alarms []*Alarm
}

// Now is the clock's reading.
func (c *Clock) Now() authority.Instant { return c.at(c.m.w.now) }

func (c *Clock) at(t time.Duration) authority.Instant {
	d := t - c.from
	if c.frozen {
		return c.base
	}
	return c.base.Add(d + scale(d, c.ppm))
}

// scale is d*ppm/1e6 rounded down, without overflow and without floating point, whose
// rounding depends on the processor.
func scale(d time.Duration, ppm int64) time.Duration {
	const million = 1_000_000
	part := d % million * time.Duration(ppm)
	whole := d/million*time.Duration(ppm) + part/million
	if part%million < 0 {
		whole--
	}
	return whole
}

// SetRate makes the clock gain ppm microseconds in each true second (lose, if
// negative), from -900,000 to 10,000,000.
func (c *Clock) SetRate(ppm int64) {
	if ppm < -900_000 || ppm > 10_000_000 {
		panic("world: a clock with this rate is none")
	}
	c.change(func() { c.ppm = ppm })
}

// Rate is how many microseconds it gains in each true second.
func (c *Clock) Rate() int64 { return c.ppm }

// Jump adds d to the reading, at once.
func (c *Clock) Jump(d time.Duration) { c.change(func() { c.base = c.base.Add(d) }) }

// freeze stops the clock, and lets it go on.
func (c *Clock) freeze(frozen bool) { c.change(func() { c.frozen = frozen }) }

// change alters the clock from now on, and finds new true times for its alarms.
func (c *Clock) change(f func()) {
	c.base, c.from = c.Now(), c.m.w.now
	f()
	for _, a := range c.alarms {
		a.place()
	}
}

// Alarm goes off when its clock has reached a reading.
type Alarm struct {
	c     *Clock
	at    authority.Instant
	order int
	do    func()
	timer Timer
}

// Alarm does f on the clock's machine when the reading has reached at: later
// when the machine is paused then, never when it crashes before.
func (c *Clock) Alarm(at authority.Instant, order int, f func()) *Alarm {
	a := &Alarm{c: c, at: at, order: order, do: f}
	c.alarms = append(c.alarms, a)
	a.place()
	return a
}

// After is Alarm, counted from the reading of now, in the order of timers.
func (c *Clock) After(d time.Duration, f func()) *Alarm {
	return c.Alarm(c.Now().Add(d), OrderTimer, f)
}

// Stop makes sure that the alarm does not go off any more. An alarm that the
// machine has not heard yet, because it was paused, is taken back too.
func (a *Alarm) Stop() {
	if a == nil || a.do == nil {
		return
	}
	a.do = nil
	a.timer.Stop()
	a.leave()
}

func (a *Alarm) leave() {
	if i := slices.Index(a.c.alarms, a); i >= 0 {
		last := len(a.c.alarms) - 1
		a.c.alarms[i] = a.c.alarms[last]
		a.c.alarms[last] = nil
		a.c.alarms = a.c.alarms[:last]
	}
}

// place puts the alarm into the world's queue, at the first true time at which
// the clock shows its reading.
func (a *Alarm) place() {
	a.timer.gen++
	a.timer.f = nil
	if a.c.frozen {
		return
	}
	w := a.c.m.w
	a.timer.f = a.fire
	w.push(a.c.When(a.at), a.order, &a.timer)
}

// When is the first true time, from now on, at which the clock shows a reading,
// if nobody changes it until then.
func (c *Clock) When(at authority.Instant) time.Duration {
	now := c.m.w.now
	left := at.Sub(c.at(now))
	if left <= 0 || c.frozen {
		return now
	}
	d := left
	if c.ppm != 0 { // near the answer; the loops make it exact on every processor
		d = time.Duration(float64(left) / (1 + float64(c.ppm)/1e6))
	}
	for c.at(now+d) >= at {
		d--
	}
	for c.at(now+d) < at {
		d++
	}
	return now + d
}

func (a *Alarm) fire() {
	a.leave()
	a.c.m.deliver(func() {
		if do := a.do; do != nil {
			a.do = nil
			do()
		}
	})
}
