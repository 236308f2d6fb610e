// Package world is the ground that a simulation stands on: true time, machines
// with clocks of their own, a network and disks that fail, and a log of what
// happened.
//
// A run is one goroutine and one seed. Nothing here reads a clock, starts a
// goroutine, ranges over a map or draws from a shared source of randomness, so
// the same seed gives the same bytes, on any number of processors.
package world

import (
	"math/rand/v2"
	"time"
)

// The order of what is due at one instant: faults first, then what the outside
// says, then what a clock says, then what leaves at the end of the turn. It is
// the order that the runtime of a real holder keeps (protocol.Order).
const (
	OrderFault   = 0  // the scenario's own hand
	OrderMessage = 10 // a delivery of the network
	OrderDisk    = 20 // a disk's answer
	OrderSelf    = 30 // a machine's note to itself
	OrderTimer   = 40 // a timer
	OrderLast    = 90 // what leaves at the end of a turn
)

// World is one run. Make one with New. It is not safe for concurrent use.
type World struct {
	Net *Net
	Log *Log

	seed     uint64
	now      time.Duration
	seq      uint64
	queue    queue
	machines []*Machine
	steps    uint64
	stopped  bool
}

// New makes an empty world at true time zero.
func New(seed uint64) *World {
	w := &World{seed: seed}
	w.Log = &Log{now: w.Now}
	w.Net = newNet(w)
	return w
}

// Seed is the one that the world was made with.
func (w *World) Seed() uint64 { return w.seed }

// Now is the true time since the start. No machine can read it.
func (w *World) Now() time.Duration { return w.now }

// Steps counts what has been done so far.
func (w *World) Steps() uint64 { return w.steps }

// Rand makes a stream of randomness. Streams of different names do not disturb
// each other: leaving out one fault leaves every other draw as it was, which is
// what lets a failing run be shrunk.
func (w *World) Rand(name string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.seed, h))
}

// At does f at a true time (now, if that has passed), in the given order among
// what is due then, and after what was asked for earlier in the same order.
func (w *World) At(t time.Duration, order int, f func()) *Timer {
	timer := &Timer{f: f}
	w.push(max(t, w.now), order, timer)
	return timer
}

// After is At, counted from now.
func (w *World) After(d time.Duration, order int, f func()) *Timer {
	return w.At(w.now+max(d, 0), order, f)
}

// Run goes on until nothing is due by the given true time, and leaves the clock
// there. Stop ends it earlier.
func (w *World) Run(until time.Duration) {
	w.stopped = false
	for !w.stopped && w.Step(until) {
	}
	if !w.stopped && w.now < until {
		w.now = until
	}
}

// Step does the one thing that is due next, unless that is after the given
// time, and reports whether it did.
func (w *World) Step(until time.Duration) bool {
	for len(w.queue) > 0 {
		if w.queue[0].at > until {
			return false
		}
		it := w.queue.pop()
		f := it.timer.f
		if f == nil || it.gen != it.timer.gen { // stopped, or moved
			continue
		}
		it.timer.f = nil
		w.now = it.at
		w.steps++
		f()
		return true
	}
	return false
}

// Stop ends the Run under way.
func (w *World) Stop() { w.stopped = true }

// Pending counts what is due at some time (stopped timers may be among it).
func (w *World) Pending() int { return len(w.queue) }

func (w *World) push(at time.Duration, order int, t *Timer) {
	w.seq++
	w.queue.push(item{at: at, order: order, seq: w.seq, timer: t, gen: t.gen})
}
