package scenario

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// Prefix is the holder's nonce prefix in every scenario, and its waiter's name.
const Prefix = "a"

// ErrCause is why a scenario's "cancel" cancels.
var ErrCause = errors.New("the caller went away")

// Run runs a scenario with a virtual clock, on the caller's goroutine, and
// returns the transcript.
func Run(s Script) string {
	v := newVirtual(s)
	v.run()
	return v.transcript.String()
}

func newVirtual(s Script) *virtual {
	v := &virtual{script: s, deadlines: map[int]bool{}}
	v.world = NewWorld(s, v)
	cfg := protocol.Config{
		Name: "job", Prefix: Prefix, Times: s.Times,
		Wait: !s.Try, Queuer: s.Queuer, BeatWithin: s.BeatWithin,
	}
	for _, step := range s.Steps {
		if step.What == "start" && s.Wait > 0 && !s.Try {
			cfg.WaitUntil = authority.Instant(step.At).Add(s.Wait)
		}
	}
	v.machine = protocol.NewHolder(cfg)
	v.ask = authority.Request{Name: "job", Length: s.Times.Length}
	if cfg.Wait && s.Queuer {
		v.ask.Waiter = Prefix
	}
	for _, step := range s.Steps {
		v.After(step.At, func() { v.outside(step) })
	}
	return v
}

// virtual is the driver without a goroutine: a list of what is due.
type virtual struct {
	script     Script
	world      *World
	machine    *protocol.Holder
	ask        authority.Request
	transcript Transcript

	now       authority.Instant
	due       []due
	seq       int
	timer     authority.Instant
	beat      authority.Instant
	paused    authority.Instant // until when the holder's process stands still
	deadlines map[int]bool      // open requests by try
	open      []protocol.Send
	outbox    []protocol.Send // leave at the end of the turn

	// What the caller knows.
	granted, ended, over bool
	starved, cancelled   bool

	observe func() // called after every instant
}

// due is something to do at a time: an event for the machine, or the world's.
type due struct {
	at    authority.Instant
	order int
	seq   int
	event protocol.Event
	do    func()
}

// Now is the Timeline's.
func (v *virtual) Now() authority.Instant { return v.now }

// After is the Timeline's. What the world does comes before what the holder
// hears at the same instant.
func (v *virtual) After(d time.Duration, f func()) { v.push(due{at: v.now.Add(d), order: -1, do: f}) }

func (v *virtual) push(d due) {
	v.seq++
	d.seq = v.seq
	v.due = append(v.due, d)
}

func (v *virtual) post(e protocol.Event) {
	v.push(due{at: v.now, order: protocol.Order(e), event: e})
}

// run goes from instant to instant. At each, the world moves first; then the
// holder hears everything that is due, unless it is paused.
func (v *virtual) run() {
	for {
		at, ok := v.next()
		if !ok || at > authority.Instant(v.script.Until) {
			return
		}
		v.now = at
		for d, ok := v.pop(func(d due) bool { return d.do != nil }); ok; d, ok = v.pop(func(d due) bool { return d.do != nil }) {
			d.do()
		}
		if v.now >= v.paused {
			v.turn()
		}
		if v.observe != nil {
			v.observe()
		}
	}
}

// turn is the runtime's: everything that is due by now, in order.
func (v *virtual) turn() {
	var batch []due
	for d, ok := v.pop(func(d due) bool { return d.event != nil }); ok; d, ok = v.pop(func(d due) bool { return d.event != nil }) {
		batch = append(batch, d)
	}
	if v.timer != 0 && v.timer <= v.now {
		batch = append(batch, due{at: v.timer, order: protocol.Order(protocol.Tick{}), event: protocol.Tick{}})
		v.timer = 0
	}
	slices.SortStableFunc(batch, before)
	for _, d := range batch {
		v.step(d.event)
	}
	for _, s := range v.outbox {
		if v.isOpen(s) { // not recalled in the same turn
			v.request(s)
		}
	}
	v.outbox = nil
}

func before(a, b due) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order), cmp.Compare(a.seq, b.seq))
}

// next is the next instant at which anything happens.
func (v *virtual) next() (at authority.Instant, ok bool) {
	consider := func(t authority.Instant) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, d := range v.due {
		if d.event != nil { // heard after the pause
			consider(max(d.at, v.paused))
		} else {
			consider(d.at)
		}
	}
	if v.timer != 0 {
		consider(max(v.timer, v.paused, v.now))
	}
	return at, ok
}

// pop takes the first thing of a kind that is due by now.
func (v *virtual) pop(kind func(due) bool) (due, bool) {
	first := -1
	for i, d := range v.due {
		if d.at <= v.now && kind(d) && (first < 0 || before(d, v.due[first]) < 0) {
			first = i
		}
	}
	if first < 0 {
		return due{}, false
	}
	d := v.due[first]
	v.due = slices.Delete(v.due, first, first+1)
	return d, true
}

// outside performs a step of the script.
func (v *virtual) outside(s Step) {
	if v.world.Do(s) {
		return
	}
	switch s.What {
	case "start":
		v.post(protocol.Start{})
	case "cancel": // a context ends once, and is let go of when the lease is over
		if !v.cancelled && !v.ended {
			v.post(protocol.Cancel{Cause: ErrCause})
		}
		v.cancelled = true
	case "release": // there is nothing to call it on before the grant
		if v.granted {
			v.post(protocol.Release{})
		}
	case "pause":
		v.paused = v.now.Add(s.For)
	case "beat":
		if !v.granted {
			return
		}
		v.beat = v.now
		if v.starved {
			v.starved = false
			v.post(protocol.Beat{At: v.now})
		}
	}
}

func (v *virtual) step(e protocol.Event) {
	if v.over {
		return
	}
	switch e := e.(type) {
	case protocol.Tick:
		if v.beat != 0 {
			v.stepOne(protocol.Beat{At: v.beat})
		}
	case protocol.Answer:
		v.open = slices.DeleteFunc(v.open, func(s protocol.Send) bool { return s.Try == e.Try })
	}
	v.stepOne(e)
}

func (v *virtual) stepOne(e protocol.Event) {
	effects := v.machine.Step(v.now, e)
	v.transcript.Record(v.now, e, effects)
	for _, effect := range effects {
		switch effect := effect.(type) {
		case protocol.Send:
			v.send(effect)
		case protocol.Recall:
			for _, s := range v.open {
				if s.Op == effect.Op {
					v.fail(s, context.Canceled)
				}
			}
		case protocol.Arm:
			v.timer = effect.At
		case protocol.Granted:
			v.granted = true
		case protocol.Starved:
			v.starved = true
		case protocol.Ended:
			v.ended = true
		case protocol.Quit:
			v.over = true
		}
	}
}

// send performs a request. Whatever comes first, its answer or its deadline, is
// the one answer that the machine hears.
func (v *virtual) send(s protocol.Send) {
	v.open = append(v.open, s)
	v.outbox = append(v.outbox, s)
	if s.Deadline != 0 {
		v.After(s.Deadline.Sub(v.now), func() { v.fail(s, context.DeadlineExceeded) })
	}
}

func (v *virtual) request(s protocol.Send) {
	r := v.ask
	r.Nonce = s.Nonce
	v.world.Call(s.Op, r, s.Grant, func(a protocol.Answer) {
		if v.isOpen(s) {
			a.Try = s.Try
			v.answer(s, a)
		}
	})
}

func (v *virtual) isOpen(s protocol.Send) bool {
	return slices.ContainsFunc(v.open, func(o protocol.Send) bool { return o.Try == s.Try }) && !v.deadlines[s.Try]
}

func (v *virtual) fail(s protocol.Send, err error) {
	if !v.isOpen(s) {
		return
	}
	if s.Op == protocol.OpWait {
		err = nil // see authority.Queuer
	}
	v.answer(s, protocol.Answer{Op: s.Op, Try: s.Try, Err: err})
}

func (v *virtual) answer(s protocol.Send, a protocol.Answer) {
	v.deadlines[s.Try] = true
	v.post(a)
}
