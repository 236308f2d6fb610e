package protocol

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
)

// hold begins the lease.
func (h *Holder) hold(g authority.Grant, base, stop Instant) {
	h.recallWait()
	h.phase = holding
	h.tries = slices.DeleteFunc(h.tries, func(t try) bool { return t.op == OpAcquire && !t.open })
	h.grant, h.base, h.stop, h.appliedBy = g, base, stop, h.now
	h.beat = h.now
	h.lastErr = nil
	h.next = base.Add(h.cfg.Times.Renew)
	h.emit(Granted{g, stop})
	if h.inLine {
		h.emit(Send{Op: OpLeave, Try: h.newTry(OpLeave), Deadline: h.now.Add(h.cfg.Times.Timeout)})
	}
}

// earlyPart is how early a renewal may leave to go along with others, as a part
// of the time between renewals.
const earlyPart = 16

// Early is how long before it falls due a renewal may go along with others.
func (h *Holder) Early() time.Duration { return h.cfg.Times.Renew / earlyPart }

// renewEarly sends the renewal that falls due soon. It never judges the work
// before its time: a beat may still come.
func (h *Holder) renewEarly() {
	if h.phase != holding || h.starved || h.open(OpRenew) > 0 || h.next.Sub(h.now) > h.Early() || h.silent() {
		return
	}
	h.renew()
}

// silent reports whether the work gives no sign of life.
func (h *Holder) silent() bool {
	w := h.cfg.BeatWithin
	return w > 0 && h.now.Sub(h.beat) > w && !h.cfg.Without.Has(RuleBeat)
}

// renew sends a renewal, unless the work gives no sign of life.
func (h *Holder) renew() {
	if h.silent() {
		if !h.starved {
			h.starved = true
			h.emit(Starved{})
		}
		h.next = h.stop
		return
	}
	h.next = min(h.now.Add(h.cfg.Times.Timeout), h.stop)
	if h.open(OpRenew) >= maxOpen {
		return
	}
	h.appliedBy = h.now.Add(h.cfg.Times.Timeout)
	h.emitRenewal(h.newTry(OpRenew), h.next)
}

func (h *Holder) renewed(a Answer, sentAt Instant) {
	if h.phase != holding { // an ended lease never comes alive again
		h.recalled(a)
		return
	}
	var gone *authority.NotHeldError
	switch {
	case a.Err == nil && a.Grant.Grant != h.grant.Grant:
		h.renewTrouble(fmt.Errorf("the authority renewed another grant (%s)", a.Grant.Grant))
	case a.Err == nil:
		h.kept(a.Grant, sentAt)
	case errors.As(a.Err, &gone):
		e := End{Reason: TakenOver, Err: a.Err}
		if t := gone.State.Grant.Token; t > h.grant.Token {
			e.By = t
		}
		h.endErr = a.Err
		h.end(e)
	case errors.Is(a.Err, authority.ErrNotHeld):
		h.endErr = a.Err
		h.end(End{Reason: TakenOver, Err: a.Err})
	default:
		h.renewTrouble(a.Err)
	}
}

// kept counts the lease from when the answered request was sent. An answer that
// comes late, after a later request's, never moves the stop time back.
func (h *Holder) kept(g authority.Grant, sentAt Instant) {
	length := g.Length
	if length <= 0 { // a change that is not known counts as the smaller length
		length = min(h.grant.Length, h.cfg.Times.Length)
	}
	base := h.cfg.countFrom(sentAt, h.now)
	if g.From != 0 {
		base = min(g.From, h.now)
	}
	h.lastErr = nil
	stop := base.Add(length - h.cfg.margin())
	if stop <= h.stop {
		return
	}
	h.base, h.stop, h.grant.Length = base, stop, length
	h.next = max(h.now, base.Add(h.cfg.Times.Renew))
	h.emitKept(stop)
}

// recalled takes the answer of a renewal whose lease has ended. The release
// waits for the last of them.
func (h *Holder) recalled(a Answer) {
	if h.released > 0 {
		return
	}
	if errors.Is(a.Err, authority.ErrNotHeld) && h.endErr == nil {
		h.endErr = a.Err
	}
	if h.phase == releasing && h.open(OpRenew) == 0 {
		h.next = h.now
	}
}

func (h *Holder) renewTrouble(err error) {
	h.lastErr = since(h.lastErr, err)
	h.emit(Trouble{OpRenew, err})
	// A definite failure comes back at once; the next try need not wait for the
	// time-out, but must not spin either.
	h.next = min(h.next, h.now.Add(h.retryDelay()))
}

func (h *Holder) onBeat(at Instant) {
	h.beat = max(h.beat, at)
	if h.starved && h.phase == holding {
		h.starved = false
		h.next = h.now
	}
}

// expire ends the lease at its stop time.
func (h *Holder) expire() {
	if h.starved {
		h.end(End{Reason: WorkStopped, Err: fmt.Errorf("no sign of life for %v", h.now.Sub(h.beat))})
		return
	}
	h.end(End{Reason: Expired, Err: h.lastErr})
}

// end ends the lease for its holder. The authority keeps it until the work has
// returned and releases it, or until it runs out there: giving it away at once
// would let a rival in beside work that is only slow to stop.
func (h *Holder) end(e End) {
	h.phase = ended
	h.next = h.ownLetGo()
	h.emit(Ended{e})
	h.emit(Recall{OpRenew})
}

func (h *Holder) cancel(cause error) {
	switch h.phase {
	case fresh, asking, queued:
		h.fail(End{Reason: Cancelled, Err: cause, Last: h.lastErr})
	case holding:
		h.end(End{Reason: Cancelled, Err: cause})
	}
}
