package actor

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Sweeper drives a protocol.Sweeper over a table.
type Sweeper struct {
	stage *Stage
	m     *world.Machine
	table *Table
	cfg   protocol.SweeperConfig
	s     *protocol.Sweeper
	alarm *world.Alarm
	asked map[string]bool // looks without an answer, by number and name
	seen  map[string]fence.Token

	// Requeues counts the rows that were given back.
	Requeues int
	// OnRequeue is called when a row was given back.
	OnRequeue func(name string)
	// Held says whether a name is held, for the log: no sweeper can know it.
	Held func(name string) bool
}

// NewSweeper makes a sweeper that waits for Start.
func NewSweeper(s *Stage, m *world.Machine, t *Table, cfg protocol.SweeperConfig) *Sweeper {
	cfg.Without = s.Without
	w := &Sweeper{stage: s, m: m, table: t, cfg: cfg, asked: map[string]bool{}, seen: map[string]fence.Token{}}
	m.OnStart(w.Start)
	return w
}

// Start begins to sweep.
func (s *Sweeper) Start() {
	s.s = protocol.NewSweeper(s.cfg)
	s.step(protocol.Start{})
}

func (s *Sweeper) step(e protocol.Event) {
	for _, effect := range s.s.Step(s.m.Mono.Now(), e) {
		switch e := effect.(type) {
		case protocol.Arm:
			s.alarm.Stop()
			s.alarm = nil
			if e.At != 0 {
				s.alarm = s.m.Mono.Alarm(e.At, world.OrderTimer, func() { s.step(protocol.Tick{}) })
			}
		case protocol.Scan:
			s.scan(e)
		case protocol.Look:
			s.look(e)
		case protocol.Requeue:
			s.requeue(e)
		case protocol.Braked:
			s.braked(e)
		}
	}
}

func (s *Sweeper) braked(e protocol.Braked) {
	ev := world.Event{What: "sweeper-brakes", Count: e.Orphans}
	if e.Until != 0 {
		ev.Until = s.stage.trueTime(s.m.Mono, e.Until)
	}
	switch {
	case e.Err != nil:
		ev.Why = "the lock service cannot be asked: " + short(e.Err)
	default:
		ev.Why = "too many orphans at once: it is the way to the lock service that is broken, not the holders"
	}
	s.stage.log(s.m, ev)
}

func (s *Sweeper) scan(e protocol.Scan) {
	s.stage.World.Net.Call(s.m, s.table.m, func(answer func(func())) {
		var rows []fence.Row
		for _, j := range s.table.Claims() {
			rows = append(rows, j.Row)
		}
		answer(func() { s.step(protocol.Scanned{Try: e.Try, Rows: rows}) })
	})
}

func (s *Sweeper) look(e protocol.Look) {
	key := fmt.Sprintf("%d %s", e.Try, e.Name)
	s.asked[key] = true
	var deadline *world.Alarm
	answer := func(st authority.State, err error) {
		if !s.asked[key] {
			return
		}
		delete(s.asked, key)
		deadline.Stop()
		s.step(protocol.Inspected{Try: e.Try, Name: e.Name, State: st, Err: err})
	}
	deadline = s.m.Mono.Alarm(e.Deadline, world.OrderMessage, func() { answer(authority.State{}, context.DeadlineExceeded) })
	s.m.Deliver(world.OrderLast, func() {
		s.stage.Lock.Call(s.m, Request{Op: protocol.OpInspect, Ask: authority.Request{Name: e.Name}}, func(a protocol.Answer) {
			s.sighted(e.Name, a)
			answer(a.State, a.Err)
		})
	})
}

// sighted notes an orphan that is seen for the first time.
func (s *Sweeper) sighted(name string, a protocol.Answer) {
	row := s.table.Table.Read(name)
	if a.Err != nil || a.State.Held || s.seen[name] == row.Owner {
		return
	}
	s.seen[name] = row.Owner
	s.stage.log(s.m, world.Event{What: "sees-orphan", Name: name, Token: uint64(row.Owner), Fence: uint64(row.Fence), State: string(row.State), Why: "nobody holds the lease; it looks again"})
}

func (s *Sweeper) requeue(e protocol.Requeue) {
	s.stage.World.Net.Call(s.m, s.table.m, func(answer func(func())) {
		// Where exact-owner is off, the store does not look either.
		err := s.table.Requeue(e.Row)
		j := s.table.Table.Read(e.Row.Name)
		ev := world.Event{What: "requeued", Name: e.Row.Name, Token: uint64(e.Row.Owner), Fence: uint64(j.Fence), State: string(j.State), Why: "out of the index"}
		switch {
		case err != nil:
			ev.What, ev.Mark, ev.Why = "requeue-refused", "refused", why(err, fence.Grant{}, j)
		case s.Held != nil && s.Held(e.Row.Name):
			ev.Mark, ev.Why = "swept", "although it is held"
		}
		if err == nil {
			s.Requeues++
		}
		s.stage.log(s.m, ev)
		answer(func() {
			s.step(protocol.Requeued{Try: e.Try, Row: e.Row, Err: err})
			if err == nil && s.OnRequeue != nil {
				s.OnRequeue(e.Row.Name)
			}
		})
	})
}
