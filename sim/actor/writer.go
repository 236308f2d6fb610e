package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Flag is the flag that says which Region writes, read from a majority of
// copies. It is one register: epoch and nonce of the writer that it names.
type Flag struct {
	stage *Stage
	m     *world.Machine
	grant fence.Grant
	who   string
}

// NewFlag puts a flag on a machine, which names nobody.
func NewFlag(s *Stage, m *world.Machine) *Flag { return &Flag{stage: s, m: m} }

func (f *Flag) at(from *world.Machine, do func() (reply func())) {
	f.stage.World.Net.Call(from, f.m, func(answer func(func())) { answer(do()) })
}

// flip names a writer under a new epoch; repeated with one nonce it is one flip.
func (f *Flag) flip(who, nonce string) fence.Grant {
	if f.grant.Nonce != nonce {
		f.grant, f.who = fence.Grant{Token: f.grant.Token + 1, Nonce: nonce}, who
	}
	return f.grant
}

// WriterConfig is a single writer's settings.
type WriterConfig struct {
	Name    string
	Times   protocol.Times
	Refresh time.Duration // of its right: reads the flag this often
	Every   time.Duration // writes this often
	Wait    time.Duration // of the successor; zero: the least
}

// Writer is the writer of one Region. The first one reads the flag and writes
// while its last reading is younger than the lease; a successor flips the flag,
// waits, raises the store's epoch, and then does the same.
type Writer struct {
	stage *Stage
	m     *world.Machine
	flag  *Flag
	cfg   WriterConfig
	s     *protocol.Successor
	i     *protocol.Incumbent // nil: it may not write
	alarm *world.Alarm        // of the successor
	again *world.Alarm        // of the incumbent
	grant fence.Grant
	seq   int64
	next  int // entry of the ledger
	n     int
	wrote bool // since it last began
	flips map[int]*world.Alarm
}

// NewWriter makes a writer that waits for Start or Promote.
func NewWriter(s *Stage, m *world.Machine, flag *Flag, cfg WriterConfig) *Writer {
	w := &Writer{stage: s, m: m, flag: flag, cfg: cfg, flips: map[int]*world.Alarm{}}
	m.OnCrash(func() { w.i, w.alarm, w.again, w.flips = nil, nil, nil, map[int]*world.Alarm{} })
	m.OnStart(func() {
		if w.s != nil { // whatever the last start knew of the wait is gone
			w.Promote()
		}
	})
	return w
}

// Start makes it the writer from the beginning.
func (w *Writer) Start() {
	w.grant = w.flag.flip(w.m.Name, w.m.Name+"0")
	w.raise(func(err error) {
		if err == nil {
			w.begin()
		}
	})
}

func (w *Writer) begin() {
	w.i = protocol.NewIncumbent(protocol.IncumbentConfig{
		Grant: w.grant, Length: w.cfg.Times.Length, Margin: w.cfg.Times.Margin, Refresh: w.cfg.Refresh, Without: w.stage.Without,
	})
	w.wrote = false
	w.right(w.i, protocol.Start{})
}

// right tells the machine of the writer's right of an event.
func (w *Writer) right(i *protocol.Incumbent, e protocol.Event) {
	if i == nil || i != w.i {
		return
	}
	for _, effect := range i.Step(w.m.Mono.Now(), e) {
		switch e := effect.(type) {
		case protocol.Arm:
			w.again.Stop()
			w.again = nil
			if e.At != 0 {
				w.again = w.m.Mono.Alarm(e.At, world.OrderTimer, func() { w.right(i, protocol.Tick{}) })
			}
		case protocol.ReadFlag:
			w.flag.at(w.m, func() func() {
				g := w.flag.grant
				return func() { w.right(i, protocol.FlagRead{Try: e.Try, Grant: g}) }
			})
		case protocol.Kept:
			w.kept(e)
		case protocol.Ended:
			w.ended(e.End)
		}
	}
}

// kept is a good reading of the flag; the first one lets it write.
func (w *Writer) kept(e protocol.Kept) {
	w.stage.log(w.m, world.Event{What: "refreshed", Name: w.cfg.Name, Epoch: uint64(w.grant.Token), Stop: w.stage.trueTime(w.m.Mono, e.Stop)})
	if !w.wrote {
		w.wrote = true
		w.writes(w.i)
	}
}

func (w *Writer) ended(e protocol.End) {
	w.i = nil
	switch e.Reason {
	case protocol.TakenOver:
		w.stops("the flag names another Region")
	case protocol.Expired:
		w.stops("its last good reading of the flag is a lease ago")
	default:
		w.stops(e.Err.Error())
	}
}

func (w *Writer) stops(why string) {
	w.stage.log(w.m, world.Event{What: "stops-writing", Name: w.cfg.Name, Epoch: uint64(w.grant.Token), Why: why})
}

var errRefused = errors.New("the store refused its write")

// writes writes for as long as the right is young enough, by its own clock.
func (w *Writer) writes(i *protocol.Incumbent) {
	if i != w.i {
		return
	}
	if !i.Holding(w.m.Mono.Now()) {
		w.right(i, protocol.Lapse{})
		return
	}
	w.n++
	write := Write{Name: w.cfg.Name, Grant: w.grant, Chunk: w.next, Seq: w.seq, Mark: fmt.Sprintf("%s/%d", w.grant, w.n)}
	w.stage.Store.Write(w.m, write, func(p Progress, err error) {
		w.seq, w.next = p.Seq, p.Next
		if err != nil {
			w.right(i, protocol.Cancel{Cause: errRefused})
		}
	})
	w.m.Mono.After(w.cfg.Every, func() { w.writes(i) })
}

func (w *Writer) raise(reply func(error)) {
	w.stage.Store.Raise(w.m, w.cfg.Name, w.grant, func(p Progress, err error) {
		if err == nil {
			w.seq, w.next = p.Seq, p.Next
		}
		reply(err)
	})
}

// Promote makes it the successor.
func (w *Writer) Promote() {
	w.s = protocol.NewSuccessor(protocol.SuccessorConfig{
		Nonce: fmt.Sprintf("%s%d", w.m.Name, w.m.Epoch()+1), Longest: w.cfg.Times.Length, Margin: w.cfg.Times.Margin,
		Wait: w.cfg.Wait, Timeout: w.cfg.Times.Timeout, Without: w.stage.Without,
	})
	w.step(protocol.Start{})
}

func (w *Writer) step(e protocol.Event) {
	for _, effect := range w.s.Step(w.m.Mono.Now(), e) {
		switch e := effect.(type) {
		case protocol.Arm:
			w.alarm.Stop()
			w.alarm = nil
			if e.At != 0 {
				w.alarm = w.m.Mono.Alarm(e.At, world.OrderTimer, func() { w.step(protocol.Tick{}) })
			}
		case protocol.Flip:
			w.flips[e.Try] = w.m.Mono.Alarm(e.Deadline, world.OrderMessage, func() { w.flipped(e.Try, fence.Grant{}, context.DeadlineExceeded) })
			w.flag.at(w.m, func() func() {
				g := w.flag.flip(w.m.Name, e.Nonce)
				return func() { w.flipped(e.Try, g, nil) }
			})
		case protocol.Raise:
			w.grant = e.Grant
			w.raise(func(err error) { w.step(protocol.Raised{Try: e.Try, Err: err}) })
		case protocol.Open:
			w.grant = e.Grant
			w.stage.log(w.m, world.Event{What: "may-write", Name: w.cfg.Name, Epoch: uint64(e.Grant.Token)})
			w.begin()
		case protocol.Ended:
			if w.i != nil {
				w.i = nil
				w.stops(e.End.Reason.String())
			}
		}
	}
}

func (w *Writer) flipped(try int, g fence.Grant, err error) {
	alarm := w.flips[try]
	if alarm == nil {
		return
	}
	alarm.Stop()
	delete(w.flips, try)
	if err == nil {
		w.stage.log(w.m, world.Event{What: "flag-flipped", Name: w.cfg.Name, Epoch: uint64(g.Token), Why: "it names this Region now"})
	}
	w.step(protocol.Flipped{Try: try, Grant: g, Err: err})
}
