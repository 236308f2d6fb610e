// Package clock is the time that leases are run by: a clock that goes on while
// the machine sleeps, and an alarm on that same clock.
//
// Boot is the production clock. On Linux its alarm is a timerfd on
// CLOCK_BOOTTIME, which fires at once after a resume if its time passed during
// the sleep; a timer of package time would count the sleep as nothing. Elsewhere
// the alarm is a timer of package time: after a resume it may fire late by the
// time slept, while Now is right. A lease's Err therefore never depends on the
// alarm.
package clock

import (
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Clock reads the time and makes alarms.
type Clock interface {
	authority.Clock
	NewAlarm() (Alarm, error)
}

// Alarm is one resettable timer. Set and Close may be called from any
// goroutine.
type Alarm interface {
	// C receives after the time last set was reached; extra receipts are
	// possible, so the receiver looks at the clock.
	C() <-chan struct{}
	// Set replaces the time; one that has passed fires at once.
	Set(at authority.Instant)
	// Close ends what the alarm has started, and waits for it.
	Close()
}

// Boot is the host's boot clock; see authority.BootClock.
func Boot() Clock { return boot{} }

type boot struct{ authority.BootClock }

func (b boot) NewAlarm() (Alarm, error) { return newBootAlarm(b) }

// Process is the clock of package time, which testing/synctest can replace.
func Process() Clock { return process{start: time.Now()} }

type process struct{ start time.Time }

func (p process) Now() authority.Instant { return authority.Instant(time.Since(p.start)) }

func (p process) NewAlarm() (Alarm, error) { return newTimerAlarm(p), nil }

// timerAlarm is an Alarm over a timer of package time.
type timerAlarm struct {
	clock authority.Clock
	c     chan struct{}
	mu    sync.Mutex
	timer *time.Timer
}

func newTimerAlarm(c authority.Clock) *timerAlarm {
	a := &timerAlarm{clock: c, c: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(1<<62, func() { ring(a.c) })
	return a
}

func (a *timerAlarm) C() <-chan struct{} { return a.c }

func (a *timerAlarm) Set(at authority.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Reset(max(0, at.Sub(a.clock.Now())))
}

func (a *timerAlarm) Close() { a.timer.Stop() }

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one receipt is pending; the receiver looks at the clock anyway
	}
}
