package actor

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
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
	alarm *world.Alarm
	grant fence.Grant
	stop  authority.Instant
	seq   int64
	next  int // entry of the ledger
	n     int
	open  bool
	flips map[int]*world.Alarm
}

// NewWriter makes a writer that waits for Start or Promote.
func NewWriter(s *Stage, m *world.Machine, flag *Flag, cfg WriterConfig) *Writer {
	w := &Writer{stage: s, m: m, flag: flag, cfg: cfg, flips: map[int]*world.Alarm{}}
	m.OnCrash(func() { w.open, w.stop, w.alarm, w.flips = false, 0, nil, map[int]*world.Alarm{} })
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
	w.open = true
	w.refresh()
}

// refresh reads the flag: while it names this writer, the right to write counts
// on from when the question was sent.
func (w *Writer) refresh() {
	sent := w.m.Mono.Now()
	w.flag.at(w.m, func() func() {
		mine := w.flag.grant == w.grant
		return func() {
			if !mine {
				w.close("the flag names another Region")
				return
			}
			first := w.stop == 0
			w.stop = sent.Add(w.cfg.Times.Length - w.margin())
			w.stage.log(w.m, world.Event{What: "refreshed", Name: w.cfg.Name, Epoch: uint64(w.grant.Token), Stop: w.stage.trueTime(w.m.Mono, w.stop)})
			if first {
				w.writes()
			}
		}
	})
	w.m.Mono.After(w.cfg.Refresh, func() {
		if w.open {
			w.refresh()
		}
	})
}

func (w *Writer) margin() time.Duration {
	if w.stage.Without.Has(protocol.RuleMargin) {
		return 0
	}
	return w.cfg.Times.Margin
}

func (w *Writer) close(why string) {
	if w.open {
		w.open = false
		w.stage.log(w.m, world.Event{What: "stops-writing", Name: w.cfg.Name, Epoch: uint64(w.grant.Token), Why: why})
	}
}

// writes writes for as long as the right is young enough, by its own clock.
func (w *Writer) writes() {
	if !w.open {
		return
	}
	if w.m.Mono.Now() >= w.stop {
		w.close("its last good reading of the flag is a lease ago")
		return
	}
	w.n++
	write := Write{Name: w.cfg.Name, Grant: w.grant, Chunk: w.next, Seq: w.seq, Mark: fmt.Sprintf("%s/%d", w.grant, w.n)}
	w.stage.Store.Write(w.m, write, func(p Progress, err error) {
		w.seq, w.next = p.Seq, p.Next
		if err != nil {
			w.close("the store refused its write")
		}
	})
	w.m.Mono.After(w.cfg.Every, w.writes)
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
		Nonce: fmt.Sprintf("%s%d", w.m.Name, w.m.Epoch()+1), Longest: w.cfg.Times.Length, Margin: w.margin(),
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
			w.close(e.End.Reason.String())
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
