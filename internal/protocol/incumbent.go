package protocol

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/fence"
)

// IncumbentConfig is the settings of a single writer that a flag names.
type IncumbentConfig struct {
	Grant   fence.Grant   // its epoch, as the flag names it; the store's fence is raised to it
	Length  time.Duration // of its right, from when a good reading of the flag was asked for
	Margin  time.Duration // from its own stop time to the end of that
	Refresh time.Duration // from one reading to the next
	Without Rules         // margin
}

// Check returns the rule that the settings break.
func (c IncumbentConfig) Check() error {
	switch {
	case c.Grant.IsZero():
		return errors.New("a writer needs the grant that the flag names it by")
	case c.Length <= 0 || c.Margin < 0 || c.Margin >= c.Length:
		return fmt.Errorf("a writer's right needs a length, and a margin below it: %v, %v", c.Length, c.Margin)
	case c.Refresh <= 0 || c.Refresh >= c.Length-c.Margin:
		return fmt.Errorf("refresh %v: the flag has to be read again before the right ends, after %v", c.Refresh, c.Length-c.Margin)
	}
	return nil
}

// Incumbent is the right of the single writer that a flag names: it lasts a length
// from when the flag was asked last, and said so. A Successor who flips the flag
// waits for that long, so the writer has to stop by its own clock when it cannot
// read the flag. Who is about to write asks Holding, and tells the machine (Lapse)
// when the answer is no. It is not safe for concurrent use.
type Incumbent struct {
	cfg   IncumbentConfig
	now   Instant
	out   []Effect
	alarm alarm
	begun bool
	over  bool
	n     int
	reads []reading // that may still be answered
	next  timer
	stop  Instant
}

// reading is one that was asked for.
type reading struct {
	try  int
	sent Instant
}

// NewIncumbent makes a machine that waits for Start.
func NewIncumbent(cfg IncumbentConfig) *Incumbent {
	if cfg.Without.Has(RuleMargin) {
		cfg.Margin = 0
	}
	return &Incumbent{cfg: cfg}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (i *Incumbent) Step(now Instant, ev Event) []Effect {
	i.now = now
	switch ev := ev.(type) {
	case Start:
		if !i.begun {
			i.begun = true
			i.next.set(now)
		}
	case FlagRead:
		i.read(ev)
	case Lapse:
		if now >= i.stop {
			i.end(End{Reason: Expired})
		}
	case Cancel:
		i.end(End{Reason: Cancelled, Err: ev.Cause})
	case Tick:
		i.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	if i.next.due(now) {
		i.ask()
	}
	if e, news := i.alarm.want(i.next); news {
		i.emit(e)
	}
	out := i.out
	i.out = nil
	return out
}

func (i *Incumbent) emit(e Effect) { i.out = append(i.out, e) }

// Holding is the check before every write.
func (i *Incumbent) Holding(now Instant) bool { return i.begun && !i.over && now < i.stop }

// Stop is when the right ends, unless the flag is read again.
func (i *Incumbent) Stop() Instant { return i.stop }

// ask forgets readings that would prove nothing any more.
func (i *Incumbent) ask() {
	i.reads = slices.DeleteFunc(i.reads, func(r reading) bool { return i.now >= r.sent.Add(i.cfg.Length) })
	i.n++
	i.reads = append(i.reads, reading{i.n, i.now})
	i.next.set(i.now.Add(i.cfg.Refresh))
	i.emit(ReadFlag{i.n})
}

// read counts from when that very reading was asked for; a late one never moves
// the stop time back. A right that has ended may come back here, other than a
// lease: that the flag still names this writer says that nobody has flipped it.
func (i *Incumbent) read(ev FlagRead) {
	if i.over {
		return
	}
	at := slices.IndexFunc(i.reads, func(r reading) bool { return r.try == ev.Try })
	switch {
	case at < 0 || ev.Err != nil:
	case ev.Grant != i.cfg.Grant:
		i.end(End{Reason: TakenOver})
	default:
		i.stop = max(i.stop, i.reads[at].sent.Add(i.cfg.Length-i.cfg.Margin))
		i.emit(Kept{i.stop})
	}
}

func (i *Incumbent) end(e End) {
	if i.over {
		return
	}
	i.over = true
	i.next.off()
	i.emit(Ended{e})
	i.emit(Quit{})
}

// FlagRead answers ReadFlag. An answer may come twice, or never.
type FlagRead struct {
	Try   int
	Grant fence.Grant // whom the flag names
	Err   error
}

func (FlagRead) event() {}

// ReadFlag asks a majority of the flag's copies whom it names.
type ReadFlag struct{ Try int }

func (ReadFlag) effect() {}

func (e ReadFlag) String() string { return fmt.Sprintf("read flag #%d", e.Try) }
