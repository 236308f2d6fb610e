package protocol

import (
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Config is one holder's settings. Times must pass Check.
type Config struct {
	Name       string
	Prefix     string // of this holder's nonces; unique in the world
	Times      Times
	Wait       bool          // go on while the name is held by another
	Queuer     bool          // the authority keeps a line; else the holder polls
	WaitUntil  Instant       // end of the waiting; zero: none
	BeatWithin time.Duration // renew only if the work beat within this time; zero: always
	// Without are rules that are left out, to show what they are for. The holder
	// itself keeps margin, sent-at, conditional-release and beat; a driver that
	// finds monotonic here hands over the wall clock's time instead.
	Without Rules
}

// margin is how long before its deadline a lease stops.
func (c Config) margin() time.Duration {
	if c.Without.Has(RuleMargin) {
		return 0
	}
	return c.Times.Margin
}

// countFrom is the instant from which an answered lease counts: when its request
// was sent, since the authority may have granted it right then.
func (c Config) countFrom(sent, now Instant) Instant {
	if c.Without.Has(RuleSentAt) {
		return now
	}
	return sent
}

// phase is what the holder is about.
type phase uint8

const (
	fresh     phase = iota
	asking          // an acquire is under way, or the pause before the next one
	queued          // refused, and told to wait
	holding         //
	ended           // the lease is over, the work may not have returned yet
	releasing       //
	clearing        // the acquire failed; what it may have left behind is being removed
	over            //
)

// maxOpen bounds the renewals under way at once: an authority that keeps silent
// must not collect requests.
const maxOpen = 3

// askTries is how often an acquire that does not wait is sent, where no answer
// was definite.
const askTries = 3

// try is a request whose outcome is not known for certain (yet). Its send time
// belongs to it: an answer counts from when *this* request left.
type try struct {
	n      int
	sentAt Instant
	of     fence.Grant // what a release releases
	op     Op
	open   bool // no answer yet
}

// ghost is a grant that nobody wants: it came too late, or twice.
type ghost struct {
	grant authority.Grant
	next  Instant // resend
	until Instant // by then the authority has let go by itself
}

// Holder is the machine. Make one with NewHolder, and hand it every event with
// Step. It is not safe for concurrent use.
//
// There may be many thousands, all of whose renewals are due at once: what a
// renewal looks at stands together, and what holders have in common is shared.
type Holder struct {
	cfg       *Config // not its Prefix and WaitUntil
	phase     phase
	starved   bool
	inLine    bool    // the authority may keep a place in the line
	inspected bool    // the doubtful acquires are settled
	quit      bool    // Quit has been emitted
	now       Instant // of the event in hand
	out       *Out    // of the step in hand
	next      Instant
	armed     Instant
	stop      Instant
	n         int    // last try
	tries     []try  // with unknown outcome
	lone      [1]try // room for one
	ghosts    []ghost
	appliedBy Instant // when the authority has applied its last renewal, whatever became of the answer
	lastErr   error   // of the last request without a definite answer
	base      Instant // from which the lease counts
	grant     authority.Grant
	beat      Instant

	prefix    string
	waitUntil Instant
	held      *authority.HeldError // last refusal
	endErr    error                // definite: the authority does not hold the grant
	spent     fence.Token          // highest that was given back: an answer on its way may still speak of it
	sends     int32                // acquires sent
	released  int32                // releases sent
	leaves    int32                // tries to leave the line that are left
}

// NewHolder makes a machine that waits for Start.
func NewHolder(cfg Config) *Holder { return NewHolderOf(&cfg, cfg.Prefix, cfg.WaitUntil) }

// NewHolderOf is NewHolder for many machines of the same settings, which must not
// change any more. Prefix and waitUntil are each holder's own.
func NewHolderOf(cfg *Config, prefix string, waitUntil Instant) *Holder {
	h := &Holder{cfg: cfg, prefix: prefix, waitUntil: waitUntil}
	h.tries = h.lone[:0]
	return h
}

// Step is told the time and an event, and returns what is to be done, in order.
func (h *Holder) Step(now Instant, ev Event) []Effect {
	var out Out
	h.StepInto(&out, now, ev)
	return out.AppendTo(nil, h)
}

// StepInto is Step for a driver of many machines. Out is empty before.
func (h *Holder) StepInto(out *Out, now Instant, ev Event) {
	h.begin(out, now)
	switch ev := ev.(type) {
	case Start:
		h.ask()
	case Answer:
		h.answer(ev)
	case Beat:
		h.onBeat(ev.At)
	case Cancel:
		h.cancel(ev.Cause)
	case Release:
		h.release()
	case Lapse:
		if h.phase == holding {
			h.expire()
		}
	case Tick:
		h.armed = 0 // it has been used up
	case RenewEarly:
		h.renewEarly()
	default:
		panic("protocol: an event that is no holder's")
	}
	h.finish()
}

// AnswerInto is StepInto for an Answer, which then need not become an Event.
func (h *Holder) AnswerInto(out *Out, now Instant, a Answer) {
	h.begin(out, now)
	h.answer(a)
	h.finish()
}

func (h *Holder) begin(out *Out, now Instant) {
	if early := h.out; early != nil {
		out.Effects = append(out.Effects, early.Effects...)
	}
	h.now, h.out = now, out
	// Before anything else: an answer that was taken from the queue after the
	// stop time does not keep the lease, whenever it arrived.
	if h.phase == holding && now >= h.stop {
		h.expire()
	}
}

func (h *Holder) finish() {
	h.due()
	h.arm()
	h.out = nil // not kept until the next event
}

// due does what the time asks for.
func (h *Holder) due() {
	switch h.phase {
	case asking, queued:
		if h.waitOver() {
			h.fail(End{Reason: WaitOver, Err: h.lastRefusal()})
		} else if h.next != 0 && h.now >= h.next {
			h.askAgain()
		}
	case holding:
		if h.now >= h.next {
			h.renew()
		}
	case ended:
		if h.now >= h.next && !h.cfg.Without.Has(RuleConditional) {
			h.phase = over // the authority has let go by itself
		}
	case releasing:
		if h.now >= h.next {
			h.sendRelease()
		}
	}
	if h.phase == clearing {
		h.clear()
	}
	h.haunt()
	if h.phase == over && len(h.ghosts) == 0 && !h.quit {
		h.quit = true
		h.emit(Quit{})
	}
}

// arm asks for the tick that the phase needs, if it is not the one asked for.
func (h *Holder) arm() {
	var at Instant
	earlier := func(t Instant) {
		if t != 0 && (at == 0 || t < at) {
			at = t
		}
	}
	switch h.phase {
	case asking, queued:
		earlier(h.next)
		earlier(h.waitUntil)
	case holding:
		earlier(h.stop)
		earlier(h.next)
	case ended:
		if h.now < h.next { // else only the release is left
			earlier(h.next)
		}
	case releasing, clearing:
		earlier(h.next)
	}
	for _, g := range h.ghosts {
		earlier(min(g.next, g.until))
	}
	if at != h.armed {
		h.armed = at
		h.out.Rearm, h.out.Arm = true, at
	}
}

// newTry records a request that leaves now.
func (h *Holder) newTry(op Op) int {
	h.n++
	h.tries = append(h.tries, try{n: h.n, op: op, sentAt: h.now, open: true})
	return h.n
}

func (h *Holder) nonce(n int) string { return h.prefix + "-" + strconv.Itoa(n) }

// mine returns the try that a nonce belongs to, if it is one of this holder's.
func (h *Holder) mine(nonce string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(nonce, h.prefix+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 1 && n <= h.n && h.nonce(n) == nonce
}

func (h *Holder) find(n int) *try {
	for i := range h.tries {
		if h.tries[i].n == n {
			return &h.tries[i]
		}
	}
	return nil
}

func (h *Holder) forget(n int) {
	for i := range h.tries {
		if h.tries[i].n == n {
			h.tries = append(h.tries[:i], h.tries[i+1:]...)
			return
		}
	}
}

// open counts the requests of one kind that have no answer yet.
func (h *Holder) open(op Op) (n int) {
	for _, t := range h.tries {
		if t.op == op && t.open {
			n++
		}
	}
	return n
}

// retryDelay is the pause after a request that failed.
func (h *Holder) retryDelay() time.Duration { return max(h.cfg.Times.Timeout/3, time.Millisecond) }

// letGo is when the authority has let go of a lease by itself, at the latest.
func (h *Holder) letGo(base Instant, length time.Duration) Instant {
	return base.Add(length).Add(length / RateError)
}

// answer sorts the answers by what was asked.
func (h *Holder) answer(a Answer) {
	t := h.find(a.Try)
	if t == nil || !t.open {
		return // a second answer to one request
	}
	t.open = false
	sent := *t
	switch a.Op {
	case OpAcquire:
		h.acquired(a)
	case OpRenew:
		h.forget(a.Try)
		h.renewed(a, sent.sentAt)
	case OpRelease:
		h.forget(a.Try)
		h.releaseAnswered(a, sent.of)
	case OpWait:
		h.forget(a.Try)
		h.waited(a)
	case OpInspect, OpLeave:
		h.forget(a.Try)
		h.cleared(a)
	}
}

// Grant is what is held; a renewal asks for it.
func (h *Holder) Grant() authority.Grant { return h.grant }

// Length is the lease's length.
func (h *Holder) Length() time.Duration { return h.grant.Length }

// Holding reports whether the lease is held, as far as the machine was told.
func (h *Holder) Holding() bool { return h.phase == holding }

// Stop is the lease's stop time; zero before it was granted.
func (h *Holder) Stop() Instant { return h.stop }
