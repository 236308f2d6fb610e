package clock

import (
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Fake is a clock that moves only when it is told to. The zero value stands at
// zero.
type Fake struct {
	mu     sync.Mutex
	now    authority.Instant
	alarms []*fakeAlarm
}

// Now reads the clock.
func (f *Fake) Now() authority.Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Advance moves the clock and rings the alarms whose time has come. It is also
// a suspend: nothing runs in between.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.ring()
}

// Jump moves the clock as Advance does, but rings nothing: what a process sees
// that looks at the clock before any timer could fire.
func (f *Fake) Jump(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// Next returns the earliest alarm that is set.
func (f *Fake) Next() (at authority.Instant, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.alarms {
		if a.set && (!ok || a.at < at) {
			at, ok = a.at, true
		}
	}
	return at, ok
}

func (f *Fake) ring() {
	for _, a := range f.alarms {
		if a.set && a.at <= f.now {
			a.set = false
			ring(a.c)
		}
	}
}

// NewAlarm makes an alarm on the fake clock.
func (f *Fake) NewAlarm() (Alarm, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &fakeAlarm{clock: f, c: make(chan struct{}, 1)}
	f.alarms = append(f.alarms, a)
	return a, nil
}

type fakeAlarm struct {
	clock *Fake
	c     chan struct{}
	at    authority.Instant
	set   bool
}

func (a *fakeAlarm) C() <-chan struct{} { return a.c }

func (a *fakeAlarm) Set(at authority.Instant) {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.at, a.set = at, true
	a.clock.ring()
}

func (a *fakeAlarm) Close() {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.clock.alarms = slices.DeleteFunc(a.clock.alarms, func(b *fakeAlarm) bool { return a == b })
}
