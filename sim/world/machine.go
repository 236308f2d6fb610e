package world

import (
	"fmt"
	"time"
)

// Machine is a computer with one process on it. What reaches it while it is
// paused waits; what reaches it while it is down is lost.
type Machine struct {
	Name string
	// Mono is the clock that leases are judged by: it never jumps, and goes on
	// while the process is paused. Whether it goes on in a suspend, see
	// MonoSleeps.
	Mono *Clock
	// Wall is the clock that an administrator, or NTP, sets.
	Wall *Clock
	// Disk keeps what was synced through a crash.
	Disk *Disk
	// MonoSleeps makes Mono stand still while the machine is suspended, as
	// CLOCK_MONOTONIC does on Linux.
	MonoSleeps bool

	w        *World
	index    int
	epoch    int
	down     bool
	paused   bool
	pausedTo time.Duration
	wake     *Timer
	waiting  []func()
	onCrash  []func()
	onStart  []func()
}

// Machine adds a machine. Both its clocks show the true time, until they are
// changed.
func (w *World) Machine(name string) *Machine {
	for _, m := range w.machines {
		if m.Name == name {
			panic(fmt.Sprintf("world: two machines are called %q", name))
		}
	}
	m := &Machine{Name: name, w: w, index: len(w.machines)}
	m.Mono = &Clock{m: m, from: w.now, base: instant(w.now)}
	m.Wall = &Clock{m: m, from: w.now, base: instant(w.now)}
	m.Disk = newDisk(m)
	w.machines = append(w.machines, m)
	return m
}

// Machines are all machines, in the order in which they were made.
func (w *World) Machines() []*Machine { return w.machines }

// Find returns the machine of a name, or nil.
func (w *World) Find(name string) *Machine {
	for _, m := range w.machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// World is the one that the machine belongs to.
func (m *Machine) World() *World { return m.w }

// Up reports whether the machine has not crashed.
func (m *Machine) Up() bool { return !m.down }

// Paused reports whether its process stands still.
func (m *Machine) Paused() bool { return m.paused }

// Epoch counts the crashes so far: what one start of the machine has begun, the
// next one does not hear of.
func (m *Machine) Epoch() int { return m.epoch }

// Pause stops the process for d of true time (until Resume, if d is zero): a
// SIGSTOP, a collection of garbage, a virtual machine that is moved. A pause in
// a pause lengthens it if it ends later.
func (m *Machine) Pause(d time.Duration) { m.pause(d, false) }

// Suspend pauses the process, and stops Mono too where MonoSleeps says so. The
// wall clock goes on.
func (m *Machine) Suspend(d time.Duration) { m.pause(d, m.MonoSleeps) }

func (m *Machine) pause(d time.Duration, freeze bool) {
	if m.down {
		return
	}
	end := forever
	if d > 0 {
		end = m.w.now + d
	}
	if m.paused {
		end = max(end, m.pausedTo)
	}
	m.paused, m.pausedTo = true, end
	m.wake.Stop()
	if freeze {
		m.Mono.freeze(true)
	}
	if end != forever {
		m.wake = m.w.At(end, OrderFault, m.Resume)
	}
}

// forever is the end of a pause that only Resume ends.
const forever = time.Duration(1<<63 - 1)

// Resume lets the process go on. What has waited is done in the order in which
// it came, at this instant.
func (m *Machine) Resume() {
	m.wake.Stop()
	if !m.paused {
		return
	}
	m.paused = false
	if m.Mono.frozen {
		m.Mono.freeze(false)
	}
	waiting := m.waiting
	m.waiting = nil
	for i, f := range waiting {
		if m.paused { // one of them has paused it again
			m.waiting = append(waiting[i:len(waiting):len(waiting)], m.waiting...)
			return
		}
		if m.down {
			return
		}
		f()
	}
}

// Crash ends the process: timers, waiting deliveries and what was not synced
// are gone. What OnCrash registered runs first.
func (m *Machine) Crash() {
	if m.down {
		return
	}
	m.down = true
	m.paused = false
	m.wake.Stop()
	m.waiting = nil
	for _, c := range []*Clock{m.Mono, m.Wall} {
		c.frozen = false
		for _, a := range c.alarms {
			a.do = nil
			a.timer.Stop()
		}
		c.alarms = nil
	}
	m.Disk.crash()
	m.epoch++
	for _, f := range m.onCrash {
		f()
	}
}

// Restart starts the machine again after a crash: OnStart's functions run, and
// find only what the disk kept.
func (m *Machine) Restart() {
	if !m.down {
		return
	}
	m.down = false
	for _, f := range m.onStart {
		f()
	}
}

// OnCrash registers what forgets a program's memory.
func (m *Machine) OnCrash(f func()) { m.onCrash = append(m.onCrash, f) }

// OnStart registers what a restart runs. It is not run for the first start.
func (m *Machine) OnStart(f func()) { m.onStart = append(m.onStart, f) }

// Bound is f for the present start of the machine: after a crash it does nothing.
func (m *Machine) Bound(f func()) func() {
	epoch := m.epoch
	return func() {
		if m.epoch == epoch {
			f()
		}
	}
}

// Deliver does f on the machine at this instant, in the given order: later if it
// is paused, never if it is down or crashes before.
func (m *Machine) Deliver(order int, f func()) {
	epoch := m.epoch
	m.w.After(0, order, func() { m.deliverIn(epoch, f) })
}

// deliver is Deliver without a place in the queue: it is due already.
func (m *Machine) deliver(f func()) { m.deliverIn(m.epoch, f) }

func (m *Machine) deliverIn(epoch int, f func()) {
	switch {
	case m.down || m.epoch != epoch:
	case m.paused:
		m.waiting = append(m.waiting, f)
	default:
		f()
	}
}
