package protocol

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// release gives the lease back: the work has returned.
func (h *Holder) release() {
	switch h.phase {
	case holding:
		h.end(End{Reason: Released})
	case ended:
	default:
		return
	}
	if h.endErr != nil && !h.cfg.Without.Has(RuleConditional) { // the authority said so already
		h.settle(h.endErr)
		return
	}
	h.phase = releasing
	h.next = h.now
	// Renewals that are still under way come back first (they were recalled):
	// once Release has returned, none may ever be sent.
	if h.open(OpRenew) > 0 {
		h.next = h.now.Add(h.cfg.Times.Timeout)
	}
}

// sendRelease sends the guarded release, again and again until its answer is
// definite or the authority has let go by itself.
func (h *Holder) sendRelease() {
	if h.endErr != nil && h.released == 0 && !h.cfg.Without.Has(RuleConditional) { // a recalled renewal brought the news
		h.settle(h.endErr)
		return
	}
	if h.now >= h.ownLetGo() && h.released > 0 {
		why := h.lastErr
		if why == nil {
			why = errors.New("no answer")
		}
		h.settle(fmt.Errorf("%w: the release of token %d was never confirmed (%w); the authority lets go of it by itself",
			fence.ErrUnknown, h.grant.Token, why))
		return
	}
	h.released++
	h.next = h.now.Add(h.cfg.Times.Timeout)
	h.emit(Send{Op: OpRelease, Try: h.newRelease(h.grant), Grant: h.releases(h.grant), Deadline: h.next})
}

// releases is what a release of g asks for: g, and nothing else.
func (h *Holder) releases(g authority.Grant) authority.Grant {
	if h.cfg.Without.Has(RuleConditional) {
		g.Grant = fence.Grant{} // whatever is there
	}
	return g
}

// ownLetGo is when the authority has let go of this lease by itself. A renewal
// whose answer nobody waited for may have been applied.
func (h *Holder) ownLetGo() Instant {
	return h.letGo(h.appliedBy, h.grant.Length)
}

// newRelease records a release that leaves now.
func (h *Holder) newRelease(g authority.Grant) int {
	n := h.newTry(OpRelease)
	h.find(n).of = g.Grant
	return n
}

func (h *Holder) releaseAnswered(a Answer, of fence.Grant) {
	if h.laid(of, a.Err) || h.phase != releasing || of != h.grant.Grant {
		return
	}
	var gone *authority.NotHeldError
	switch {
	case a.Err == nil:
		h.settle(nil)
	case errors.As(a.Err, &gone) && h.released > 1 && h.now < h.base.Add(h.grant.Length):
		// An earlier try had no answer, and the authority could not have let go
		// by itself yet: it was that try that released.
		h.settle(nil)
	case definite(a.Err):
		h.settle(a.Err)
	default:
		h.lastErr = since(h.lastErr, a.Err)
		h.next = min(h.next, h.now.Add(h.retryDelay()))
	}
}

func (h *Holder) settle(err error) {
	h.phase = over
	h.emit(Settled{err})
}
