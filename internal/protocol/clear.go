package protocol

import (
	"errors"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// clear removes what a failed acquire may have left behind: its place in the
// line, and a grant whose answer was lost. It first lets the requests under way
// come back, since one of them may be the grant.
func (h *Holder) clear() {
	if h.open(OpAcquire) > 0 || h.open(OpWait) > 0 || h.open(OpLeave) > 0 || h.open(OpInspect) > 0 {
		h.next = 0
		return
	}
	if h.next != 0 && h.now < h.next {
		return
	}
	h.next = 0
	switch {
	case h.leaves > 0:
		h.leaves--
		h.emit(Send{Op: OpLeave, Try: h.newTry(OpLeave), Deadline: h.now.Add(h.cfg.Times.Timeout)})
	case !h.inspected && h.doubts():
		h.emit(Send{Op: OpInspect, Try: h.newTry(OpInspect), Deadline: h.now.Add(h.cfg.Times.Timeout)})
	default:
		h.phase = over
	}
}

// doubts reports whether an acquire had no definite answer and could still be
// held.
func (h *Holder) doubts() bool {
	for _, t := range h.tries {
		if t.op == OpAcquire && h.now < h.letGo(t.sentAt.Add(h.cfg.Times.Timeout), h.cfg.Times.Length) {
			return true
		}
	}
	return false
}

// cleared takes the answers of a leave and an inspect.
func (h *Holder) cleared(a Answer) {
	if h.phase != clearing {
		return
	}
	if errors.Is(a.Err, authority.ErrClosed) {
		h.leaves, h.inspected = 0, true
		return
	}
	if a.Err != nil {
		h.next = h.now.Add(h.retryDelay())
		return
	}
	if a.Op == OpLeave {
		h.leaves = 0
		return
	}
	h.inspected = true
	if _, ok := h.mine(a.State.Grant.Nonce); ok && a.State.Held {
		h.giveBack(authority.Grant{Grant: a.State.Grant, Name: a.State.Name, Length: a.State.Length})
	}
}

// giveBack releases a grant that nobody will use.
func (h *Holder) giveBack(g authority.Grant) {
	h.spent = max(h.spent, g.Token)
	for _, old := range h.ghosts {
		if old.grant.Grant == g.Grant {
			return
		}
	}
	if g.Length <= 0 {
		g.Length = h.cfg.Times.Length
	}
	h.ghosts = append(h.ghosts, ghost{grant: g, next: h.now, until: h.letGo(h.now, g.Length)})
}

// haunt sends, and sends again, the releases of the grants that are to be given
// back, until each is definite or the authority has let go by itself.
func (h *Holder) haunt() {
	kept := h.ghosts[:0]
	for _, g := range h.ghosts {
		if h.now >= g.until {
			continue
		}
		if h.now >= g.next {
			g.next = h.now.Add(h.cfg.Times.Timeout)
			h.emit(Send{Op: OpRelease, Try: h.newRelease(g.grant), Grant: h.releases(g.grant), Deadline: g.next})
		}
		kept = append(kept, g)
	}
	h.ghosts = kept
}

// laid takes the answer of a ghost's release; it reports whether it was one's.
func (h *Holder) laid(of fence.Grant, err error) bool {
	for i, g := range h.ghosts {
		if g.grant.Grant != of {
			continue
		}
		if definite(err) {
			h.ghosts = append(h.ghosts[:i], h.ghosts[i+1:]...)
		} else {
			h.ghosts[i].next = h.now.Add(h.retryDelay())
		}
		return true
	}
	return false
}

// definite reports whether a release's answer leaves nothing to do.
func definite(err error) bool {
	return err == nil || errors.Is(err, authority.ErrNotHeld) || final(err)
}

// final reports whether trying again cannot help.
func final(err error) bool {
	return errors.Is(err, authority.ErrClosed) || errors.Is(err, authority.ErrInvalid) || errors.Is(err, authority.ErrBroken)
}
