package protocol

import (
	"fmt"

	"github.com/stint-dev/stint/authority"
)

// written is told that a write was carried out. It was the last one; all before
// it were overwritten or have failed.
func (o *Observer) written(w write) {
	o.writes = nil
	o.seen, o.seenAt, o.looked, o.doubt = w.record, o.now, true, false
	switch o.phase {
	case asking:
		o.granted(w)
	case holding:
		o.kept(w)
	case releasing:
		if w.record.Holder == "" {
			o.settle(nil)
			return
		}
		o.next.set(o.now) // it was a renewal
	case clearing: // it was the claim, which nobody wants any more
		o.grant = authority.Grant{Grant: w.record.Grant, Name: o.cfg.Name, Length: w.record.Length}
		o.phase = releasing
		o.next.set(o.now)
	}
}

// renew writes the same grant again, under a fresh nonce.
func (o *Observer) renew() {
	if w := o.cfg.BeatWithin; w > 0 && o.now.Sub(o.beat) > w && !o.cfg.Without.Has(RuleBeat) {
		if !o.starved {
			o.starved = true
			o.emit(Starved{})
		}
		o.next.set(o.stop)
		return
	}
	if o.doubt {
		o.load()
		return
	}
	o.swap(Swap{Record: o.own()})
}

func (o *Observer) own() Record {
	return Record{Holder: o.cfg.Holder, Grant: o.grant.Grant, Length: o.cfg.Times.Length}
}

// kept counts the lease from when the write that was carried out was sent.
func (o *Observer) kept(w write) {
	stop := o.stop
	o.count(w.sentAt)
	o.stop = max(stop, o.stop)
	o.lastErr = nil
	o.next.set(max(o.now, o.base.Add(o.cfg.Times.Renew)))
	o.emit(Kept{o.stop})
}

// lookHolding looks at a record that has changed, or may have, under the holder.
func (o *Observer) lookHolding() {
	if o.mine() {
		o.next.set(o.now) // the write under way was lost: once more
		return
	}
	o.endErr = o.notHeld()
	e := End{Reason: TakenOver, Err: o.endErr}
	if o.version != "" && o.seen.Grant.Token > o.grant.Token {
		e.By = o.seen.Grant.Token
	}
	o.end(e)
}

// mine reports whether the record still is the holder's.
func (o *Observer) mine() bool {
	return o.version != "" && o.seen.Holder != "" && o.seen.Grant == o.grant.Grant
}

func (o *Observer) notHeld() error {
	st := authority.State{Name: o.cfg.Name}
	if o.version != "" {
		st.Held, st.Grant, st.Holder = o.seen.Holder != "", o.seen.Grant, o.seen.Holder
	}
	return &authority.NotHeldError{Grant: o.grant.Grant, State: st}
}

func (o *Observer) onBeat(at Instant) {
	o.beat = max(o.beat, at)
	if o.starved && o.phase == holding {
		o.starved = false
		o.next.set(o.now)
	}
}

func (o *Observer) expire() {
	if o.starved {
		o.end(End{Reason: WorkStopped, Err: fmt.Errorf("no sign of life for %v", o.now.Sub(o.beat))})
		return
	}
	o.end(End{Reason: Expired, Err: o.lastErr})
}

// end ends the lease for its holder; the record says so once the work has
// returned.
func (o *Observer) end(e End) {
	o.phase = ended
	o.next.off()
	o.emit(Ended{e})
}

func (o *Observer) cancel(cause error) {
	switch o.phase {
	case fresh, asking:
		o.fail(End{Reason: Cancelled, Err: cause})
	case holding:
		o.end(End{Reason: Cancelled, Err: cause})
	}
}

// release gives the record back. A write under way comes back first: it may be a
// renewal that would otherwise bring the lease to life again.
func (o *Observer) release() {
	if o.phase == holding {
		o.end(End{Reason: Released})
	}
	if o.phase != ended {
		return
	}
	o.asked = true
	if o.endErr != nil && !o.cfg.Without.Has(RuleConditional) {
		o.settle(o.endErr)
		return
	}
	o.phase = releasing
	o.next.set(o.now)
}

// sendRelease clears the holder. The record stays, with its token: who deletes
// it makes the next token 1 again.
func (o *Observer) sendRelease() {
	if o.now >= o.gone && o.tried {
		o.settle(fmt.Errorf("the release of token %d was never confirmed (%w); it runs out by itself", o.grant.Token, o.lastErr))
		return
	}
	any := o.cfg.Without.Has(RuleConditional)
	if o.doubt && !any {
		o.load()
		return
	}
	o.tried = true
	r := o.own()
	r.Holder = ""
	o.swap(Swap{Any: any, Delete: o.cfg.Without.Has(RuleKeepToken), Record: r})
}

// lookReleasing sees whether there is still something to release.
func (o *Observer) lookReleasing() {
	switch {
	case o.mine():
		o.next.set(o.now)
	case o.tried && (o.version == "" || o.seen.Grant == o.grant.Grant): // an earlier try did it
		o.settle(nil)
	default:
		o.settle(o.notHeld())
	}
}

func (o *Observer) settle(err error) {
	if o.asked {
		o.emit(Settled{err})
	}
	o.quit()
}

// Holding reports whether the lease is held, as far as the machine was told.
func (o *Observer) Holding() bool { return o.phase == holding }

// Stop is the lease's stop time; zero before it was granted.
func (o *Observer) Stop() Instant { return o.stop }
