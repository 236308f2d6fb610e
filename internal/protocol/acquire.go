package protocol

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
)

// ask sends an acquire, under a nonce of its own.
func (h *Holder) ask() {
	h.phase = asking
	if h.open(OpAcquire) >= maxOpen {
		h.next = h.now.Add(h.cfg.Times.Timeout)
		return
	}
	h.sends++
	n := h.newTry(OpAcquire)
	h.next = h.now.Add(h.cfg.Times.Timeout)
	h.emit(Send{Op: OpAcquire, Try: n, Nonce: h.nonce(n), Deadline: h.next})
	h.prune()
}

// prune forgets acquires that are so old that a grant of theirs would have run
// out: mine still knows their nonces.
func (h *Holder) prune() {
	kept := h.tries[:0]
	for _, t := range h.tries {
		if t.open || h.now < h.letGo(t.sentAt.Add(h.cfg.Times.Timeout), h.cfg.Times.Length) {
			kept = append(kept, t)
		}
	}
	h.tries = kept
}

// askAgain is the next try, unless the caller would not wait and has asked often
// enough.
func (h *Holder) askAgain() {
	if !h.cfg.Wait && h.sends >= askTries {
		h.fail(End{Reason: NoAnswer, Err: h.lastErr})
		return
	}
	h.ask()
}

func (h *Holder) acquired(a Answer) {
	var held *authority.HeldError
	switch {
	case a.Err == nil:
		h.inLine = false // the grant takes its waiter out of the line
		h.granted(a.Grant)
	case errors.As(a.Err, &held):
		h.forget(a.Try)
		h.refused(held)
	case errors.Is(a.Err, ErrNotSent):
		h.forget(a.Try)
		h.acquireTrouble(a.Err)
	case final(a.Err):
		h.forget(a.Try)
		if h.phase == asking {
			h.fail(End{Reason: Rejected, Err: a.Err})
		}
	default:
		// Not forgotten: it may have been granted, or may yet be.
		h.acquireTrouble(a.Err)
	}
}

// acquireTrouble pauses before the next try, unless a later one is under way.
func (h *Holder) acquireTrouble(err error) {
	h.lastErr = since(h.lastErr, err)
	if h.phase != asking || h.open(OpAcquire) > 0 {
		return
	}
	h.emit(Trouble{OpAcquire, err})
	h.next = h.now.Add(h.retryDelay())
}

// granted takes a grant, however the holder learned of it.
func (h *Holder) granted(g authority.Grant) {
	n, ok := h.mine(g.Nonce)
	switch {
	case !ok:
		h.acquireTrouble(fmt.Errorf("the authority answered with a grant of somebody else (%s)", g.Grant))
		return
	case h.phase != asking && h.phase != queued:
		if h.grant.Grant != g.Grant {
			h.giveBack(g)
		}
		return
	}
	length := g.Length
	if length <= 0 {
		length = h.cfg.Times.Length
	}
	t := h.find(n)
	var base Instant
	switch {
	case g.From != 0 && g.Token > h.spent: // also of a place in line, whose try was answered long ago
		base = min(g.From, h.now)
	case t == nil: // so old that it was forgotten, or given back before
		h.tooLate(g)
		return
	default:
		base = h.cfg.countFrom(t.sentAt, h.now)
	}
	h.forget(n) // its outcome is known: it was granted
	stop := base.Add(length - h.cfg.margin())
	if h.now >= stop {
		h.tooLate(g)
		return
	}
	g.Length = length
	h.hold(g, base, stop)
}

// tooLate gives back a grant that is over before it could be used: returning it
// would hand the caller a lease that was born expired.
func (h *Holder) tooLate(g authority.Grant) {
	h.giveBack(g)
	h.lastErr = fmt.Errorf("the grant with token %d arrived after its own stop time and was given back: "+
		"the authority answers more slowly than the lease allows", g.Token)
	if h.cfg.Wait {
		h.emit(Trouble{OpAcquire, h.lastErr})
		h.recallWait()
		h.phase = asking
		h.next = h.now.Add(h.retryDelay())
		return
	}
	h.fail(End{Reason: TooLate, Err: h.lastErr})
}

// refused is told that somebody holds the name. That may be the holder itself,
// by an earlier try whose answer was lost.
func (h *Holder) refused(held *authority.HeldError) {
	s := held.State
	if _, ok := h.mine(s.Grant.Nonce); ok && s.Held {
		h.inLine = h.cfg.Wait && h.cfg.Queuer // behind itself
		h.granted(authority.Grant{Grant: s.Grant, Name: s.Name, Length: s.Length})
		return
	}
	if h.phase != asking || h.open(OpAcquire) > 0 {
		return // a later try is under way and knows better
	}
	h.held, h.lastErr = held, nil
	h.inLine = h.cfg.Wait && h.cfg.Queuer
	if !h.cfg.Wait {
		h.fail(End{Reason: Refused, Err: held})
		return
	}
	h.emit(Waiting{held})
	if !h.cfg.Queuer {
		h.next = h.now.Add(min(max(s.Left, h.retryDelay()), h.cfg.Times.Timeout))
		return
	}
	h.phase = queued
	h.next = 0
	h.emit(Send{Op: OpWait, Try: h.newTry(OpWait), Deadline: h.waitUntil})
}

// waited tries again, since the authority thinks it worthwhile.
func (h *Holder) waited(a Answer) {
	if h.phase != queued || h.waitOver() {
		return
	}
	if a.Err == nil {
		h.ask()
		return
	}
	h.lastErr = since(h.lastErr, a.Err)
	h.emit(Trouble{OpWait, a.Err})
	h.phase = asking
	h.next = h.now.Add(h.retryDelay())
}

func (h *Holder) waitOver() bool { return h.waitUntil != 0 && h.now >= h.waitUntil }

func (h *Holder) recallWait() {
	if h.open(OpWait) > 0 {
		h.emit(Recall{OpWait})
	}
}

func (h *Holder) lastRefusal() error {
	if h.held != nil {
		return h.held
	}
	return h.lastErr
}

// fail ends the acquire. The caller hears of it at once; what the tries may have
// left behind is removed afterwards.
func (h *Holder) fail(e End) {
	h.emit(Ended{e})
	h.emit(Recall{OpAcquire})
	h.recallWait()
	h.phase = clearing
	h.next = 0
	if h.cfg.Wait && h.cfg.Queuer && h.sends > 0 {
		h.leaves = askTries
	}
}
