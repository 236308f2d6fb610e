package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/authority"
)

// ObserverConfig is one observer's settings.
type ObserverConfig struct {
	Config
	Holder      string
	Poll        time.Duration // look at a held record this often; zero: once a second
	Longest     time.Duration // the largest lease length of any client of the register; zero: the record's own
	OwnWait     bool          // a simulator's: a claim waits this client's own length, whatever the record says
	ClaimMargin time.Duration // where clock-free is left out: added to the time in the record
}

// Observer is one attempt to hold one name in a register that can only compare
// and swap. Nobody keeps time there: who wants to claim a held record waits until
// it has not changed for a full lease, by its own clock. It speaks the Holder's
// effects (Granted, Kept, Ended, Settled, Quit) and the register's. It is not
// safe for concurrent use.
type Observer struct {
	cfg   ObserverConfig
	phase phase
	now   Instant
	out   []Effect
	alarm alarm

	n      int
	busy   int     // the one request under way; 0: none
	next   timer   // when to send the next one; none: when an answer says so
	writes []write // with unknown outcome

	seen    Record // the record as it was last seen
	version string
	seenAt  Instant // when this version was first seen
	looked  bool    // it was seen at all
	told    bool    // that it waits

	grant   authority.Grant
	base    Instant
	gone    Instant // by then nobody waits for the lease any more
	stop    Instant
	beat    Instant
	starved bool
	doubt   bool // load before the next swap
	lastErr error
	endErr  error
	tried   bool // a release was sent
	asked   bool // to release: the caller waits for Settled
}

// write is a swap whose outcome is not known (yet).
type write struct {
	record Record
	sentAt Instant
}

// NewObserver makes a machine that waits for Start.
func NewObserver(cfg ObserverConfig) *Observer {
	if cfg.Poll == 0 {
		cfg.Poll = time.Second
	}
	return &Observer{cfg: cfg}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (o *Observer) Step(now Instant, ev Event) []Effect {
	o.now = now
	if o.phase == holding && now >= o.stop {
		o.expire()
	}
	switch ev := ev.(type) {
	case Start:
		if o.phase == fresh {
			o.phase = asking
			o.next.set(now)
		}
	case Loaded:
		if ev.Try == o.busy && o.busy != 0 {
			o.busy = 0
			o.loaded(ev)
		}
	case Swapped:
		if ev.Try == o.busy && o.busy != 0 {
			o.busy = 0
			o.swapped(ev)
		}
	case Beat:
		o.onBeat(ev.At)
	case Cancel:
		o.cancel(ev.Cause)
	case Release:
		o.release()
	case Tick:
		o.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	o.due()
	o.arm()
	out := o.out
	o.out = nil
	return out
}

func (o *Observer) emit(e Effect) { o.out = append(o.out, e) }

// due does what the time asks for. There is one request under way at a time: the
// register's answer decides what the next one is.
func (o *Observer) due() {
	if o.phase == asking && o.cfg.WaitUntil != 0 && o.now >= o.cfg.WaitUntil {
		o.fail(End{Reason: WaitOver, Err: o.lastErr})
	}
	if o.phase == ended && o.now >= o.gone && !o.cfg.Without.Has(RuleConditional) {
		o.quit()
	}
	if o.phase == clearing && o.busy == 0 && (len(o.writes) == 0 || o.now >= o.gone) {
		o.quit() // what it claimed runs out by itself
	}
	if o.busy != 0 || !o.next.due(o.now) {
		return
	}
	switch o.phase {
	case asking:
		o.ask()
	case holding:
		o.renew()
	case releasing:
		o.sendRelease()
	case clearing:
		o.load()
	}
}

func (o *Observer) arm() {
	var at timer
	if o.busy == 0 && o.phase != ended && o.phase != over {
		at = o.next
	}
	switch {
	case o.phase == asking && o.cfg.WaitUntil != 0:
		at.sooner(o.cfg.WaitUntil)
	case o.phase == holding:
		at.sooner(o.stop)
	case o.phase == ended && o.now < o.gone:
		at.sooner(o.gone)
	}
	if e, news := o.alarm.want(at); news {
		o.emit(e)
	}
}

func (o *Observer) nonce(n int) string { return o.cfg.Prefix + "-" + strconv.Itoa(n) }

func (o *Observer) load() {
	o.n++
	o.busy = o.n
	o.next.off()
	o.emit(Load{Try: o.n, Deadline: o.now.Add(o.cfg.Times.Timeout)})
}

// swap sends a write of a fresh nonce, on the version that was seen last.
func (o *Observer) swap(s Swap) {
	o.n++
	o.busy = o.n
	o.next.off()
	s.Try, s.If, s.Deadline = o.n, o.version, o.now.Add(o.cfg.Times.Timeout)
	s.Record.Write = o.nonce(o.n)
	o.writes = append(o.writes, write{s.Record, o.now})
	o.emit(s)
}

// retry looks at the record after a pause.
func (o *Observer) retry(err error) {
	o.lastErr = since(o.lastErr, err)
	o.doubt = true
	o.next.set(o.now.Add(max(o.cfg.Times.Timeout/3, time.Millisecond)))
}

// loaded sees the record. If it is one of the observer's own writes, whose answer
// was lost, that write is answered now.
func (o *Observer) loaded(ev Loaded) {
	if ev.Err != nil {
		o.retry(ev.Err)
		return
	}
	o.doubt = false
	if !o.looked || ev.Version != o.version {
		o.looked, o.seen, o.version, o.seenAt, o.told = true, ev.Record, ev.Version, o.now, false
		for _, w := range o.writes {
			if w.record.Write == ev.Record.Write && ev.Version != "" {
				o.written(w)
				return
			}
		}
	}
	switch o.phase {
	case asking:
		o.look(ev.Wall)
	case holding:
		o.lookHolding()
	case releasing:
		o.lookReleasing()
	case clearing: // no claim of its own is there
		o.quit()
	}
}

func (o *Observer) swapped(ev Swapped) {
	w := o.writes[len(o.writes)-1]
	switch {
	case ev.Err == nil:
		o.version = ev.Version
		o.written(w)
	case errors.Is(ev.Err, ErrConflict):
		// An earlier write of its own may be what changed it.
		o.writes = o.writes[:len(o.writes)-1]
		o.doubt = true
		o.next.set(o.now)
	default:
		o.retry(ev.Err)
	}
}
