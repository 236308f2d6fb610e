package world

import (
	"math/rand/v2"
	"time"
)

// Disk is a machine's disk. Writes are in the cache until a sync; a crash loses
// what was not synced, or keeps some first part of it.
type Disk struct {
	// Cost and Jitter are the fixed and the random part of a sync's time.
	Cost, Jitter time.Duration
	// Torn makes a crash keep a random first part of the unsynced writes, in
	// place of none: a disk may have written them already.
	Torn bool

	// Syncs counts them.
	Syncs uint64

	m       *Machine
	rng     *rand.Rand
	writes  []func()      // in the cache, oldest first
	durable uint64        // how many writes were applied
	free    time.Duration // when the syncs so far are done
}

func newDisk(m *Machine) *Disk { return &Disk{m: m, rng: m.w.Rand("disk " + m.Name)} }

// Write puts a change into the cache. apply makes it durable; it must touch only
// what stands for the disk's content.
func (d *Disk) Write(apply func()) { d.writes = append(d.writes, apply) }

// Sync makes the writes so far durable, and then does f on the machine. Syncs
// follow one another; a sync goes on while the process is paused.
func (d *Disk) Sync(f func()) {
	d.Syncs++
	cost := d.Cost
	if d.Jitter > 0 {
		cost += time.Duration(d.rng.Int64N(int64(d.Jitter) + 1))
	}
	w := d.m.w
	d.free = max(d.free, w.now) + cost
	upTo, epoch := d.durable+uint64(len(d.writes)), d.m.epoch
	done := func() {
		if d.m.epoch != epoch {
			return
		}
		d.flush(int(upTo - d.durable))
		d.m.deliver(f)
	}
	if d.free == w.now {
		done() // a disk without cost takes no turn of its own
		return
	}
	w.At(d.free, OrderDisk, done)
}

// flush applies the first n of the unsynced writes.
func (d *Disk) flush(n int) {
	for i, apply := range d.writes[:n] {
		d.writes[i] = nil
		apply()
	}
	d.durable += uint64(n)
	if d.writes = d.writes[n:]; len(d.writes) == 0 {
		d.writes = nil
	}
}

func (d *Disk) crash() {
	if d.Torn && len(d.writes) > 0 {
		d.flush(d.rng.IntN(len(d.writes) + 1))
	}
	d.writes = nil
	d.free = d.m.w.now
}
