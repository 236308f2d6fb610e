package actor

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Observer drives a protocol.Observer over an item.
type Observer struct {
	stage *Stage
	m     *world.Machine
	item  *Item
	cfg   protocol.ObserverConfig
	o     *protocol.Observer
	alarm *world.Alarm
	tries map[int]*world.Alarm
	n     int
	grant authority.Grant
	stop  authority.Instant
	over  bool

	// LoseAnswers loses the answers to the next swaps, which are carried out.
	LoseAnswers int
}

// NewObserver makes an observer that waits for Start.
func NewObserver(s *Stage, m *world.Machine, item *Item, cfg protocol.ObserverConfig) *Observer {
	cfg.Without = s.Without
	o := &Observer{stage: s, m: m, item: item, cfg: cfg}
	m.OnStart(o.Start)
	return o
}

// Start is one attempt to hold the item.
func (o *Observer) Start() {
	o.n++
	o.alarm.Stop()
	cfg := o.cfg
	cfg.Prefix = fmt.Sprintf("%s%d", o.m.Name, o.n)
	o.o, o.tries, o.over = protocol.NewObserver(cfg), map[int]*world.Alarm{}, false
	o.step(protocol.Start{})
}

// Release gives the item back.
func (o *Observer) Release() { o.step(protocol.Release{}) }

// Grant is the last one.
func (o *Observer) Grant() authority.Grant { return o.grant }

// CheckNow looks at the clock and the stop time.
func (o *Observer) CheckNow() bool {
	inside := o.o != nil && o.stop != 0 && o.m.Mono.Now() < o.stop
	e := world.Event{What: "check", Name: o.item.Key, Epoch: uint64(o.grant.Token), Stop: o.stage.trueTime(o.m.Mono, o.stop), State: "inside"}
	if !inside {
		e.State = "past"
	}
	o.stage.log(o.m, e)
	return inside
}

func (o *Observer) step(e protocol.Event) {
	if o.o == nil || o.over {
		return
	}
	for _, effect := range o.o.Step(o.m.Mono.Now(), e) {
		switch e := effect.(type) {
		case protocol.Arm:
			o.alarm.Stop()
			o.alarm = nil
			if e.At != 0 {
				o.alarm = o.m.Mono.Alarm(e.At, world.OrderTimer, func() { o.step(protocol.Tick{}) })
			}
		case protocol.Load:
			o.load(e)
		case protocol.Swap:
			o.swap(e)
		default:
			o.tell(effect)
		}
	}
}

// expect makes a request answered once: by done, or by its deadline.
func (o *Observer) expect(try int, deadline authority.Instant, late protocol.Event) (done func(protocol.Event)) {
	tries := o.tries
	tries[try] = o.m.Mono.Alarm(deadline, world.OrderMessage, func() {
		delete(tries, try)
		o.step(late)
	})
	return func(e protocol.Event) {
		if alarm := tries[try]; alarm != nil {
			delete(tries, try)
			alarm.Stop()
			o.step(e)
		}
	}
}

func (o *Observer) load(l protocol.Load) {
	done := o.expect(l.Try, l.Deadline, protocol.Loaded{Try: l.Try, Err: context.DeadlineExceeded})
	o.stage.World.Net.Call(o.m, o.item.m, func(answer func(func())) {
		r, version := o.item.Record()
		answer(func() {
			o.stage.log(o.m, world.Event{What: "item-read", Name: o.item.Key, Epoch: uint64(r.Grant.Token), Clock: wall(o.m), Detail: true, Why: r.Write})
			done(protocol.Loaded{Try: l.Try, Record: r, Version: version, Wall: o.m.Wall.Now()})
		})
	})
}

func (o *Observer) swap(s protocol.Swap) {
	done := o.expect(s.Try, s.Deadline, protocol.Swapped{Try: s.Try, Err: context.DeadlineExceeded})
	s.Record.Until = o.m.Wall.Now().Add(s.Record.Length)
	lost := o.LoseAnswers > 0
	if lost {
		o.LoseAnswers--
	}
	o.stage.World.Net.Call(o.m, o.item.m, func(answer func(func())) {
		version, err := o.item.swap(o.m, s)
		answer(func() {
			if lost {
				o.stage.log(o.m, world.Event{What: "answer-lost", Name: o.item.Key, Why: "swap"})
				return
			}
			done(protocol.Swapped{Try: s.Try, Version: version, Err: err})
		})
	})
}

func (o *Observer) tell(effect protocol.Effect) {
	name := o.item.Key
	switch e := effect.(type) {
	case protocol.Granted:
		o.grant, o.stop = e.Grant, e.Stop
		o.stage.log(o.m, world.Event{What: "granted", Name: name, Token: uint64(e.Grant.Token), Stop: o.stage.trueTime(o.m.Mono, e.Stop)})
	case protocol.Kept:
		o.stop = e.Stop
		o.stage.log(o.m, world.Event{What: "kept", Name: name, Token: uint64(o.grant.Token), Stop: o.stage.trueTime(o.m.Mono, e.Stop)})
	case protocol.Ended:
		o.stop = 0
		o.stage.log(o.m, world.Event{What: "ended", Name: name, Token: uint64(o.grant.Token), Why: e.End.Reason.String()})
	case protocol.Settled:
		what := "released"
		if e.Err != nil {
			what = "release-refused"
		}
		o.stage.log(o.m, world.Event{What: what, Name: name, Token: uint64(o.grant.Token), Why: short(e.Err)})
	case protocol.Trouble:
		o.stage.log(o.m, world.Event{What: "trouble", Name: name, Why: short(e.Err)})
	case protocol.Waiting:
		o.stage.log(o.m, world.Event{What: "waits", Name: name, Token: uint64(e.Held.State.Grant.Token), Clock: wall(o.m), Why: "held"})
	case protocol.Quit:
		o.over = true
		o.alarm.Stop()
	}
}
