package protocol

import (
	"fmt"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// ask looks at the record, or claims it if its time has come.
func (o *Observer) ask() {
	if o.looked && !o.doubt && !o.cfg.Without.Has(RuleClockFree) && o.now >= o.claimAt() {
		o.claim()
		return
	}
	o.load()
}

// look decides what a record means for somebody who wants to claim it.
func (o *Observer) look(wall Instant) {
	free := o.version == "" || o.seen.Holder == ""
	switch {
	case free:
		o.claim()
		return
	case o.cfg.Without.Has(RuleClockFree):
		if wall >= o.seen.Until.Add(o.cfg.ClaimMargin) {
			o.claim()
			return
		}
	case o.now >= o.claimAt():
		o.claim()
		return
	}
	held := o.held()
	o.lastErr = held
	if !o.cfg.Wait {
		o.fail(End{Reason: Refused, Err: held})
		return
	}
	if !o.told {
		o.told = true
		o.emit(Waiting{held})
	}
	o.next.set(o.now.Add(o.cfg.Poll))
	if !o.cfg.Without.Has(RuleClockFree) {
		o.next.sooner(o.claimAt())
	}
}

// claimAt is when a record that has not changed since it was first seen is dead:
// its holder has had no renewal for the longest lease that the record can mean.
// The wait begins at the answer to the look, which may be later than the write
// but is never earlier.
func (o *Observer) claimAt() Instant {
	if o.version == "" || o.seen.Holder == "" {
		return o.seenAt
	}
	if o.cfg.OwnWait {
		return o.seenAt.Add(o.cfg.Times.Length)
	}
	return o.seenAt.Add(max(o.seen.Length, o.cfg.Longest))
}

func (o *Observer) held() *authority.HeldError {
	s := o.seen
	return &authority.HeldError{State: authority.State{
		Name: o.cfg.Name, Held: true, Grant: s.Grant, Holder: s.Holder, Length: s.Length, Left: max(0, o.claimAt().Sub(o.now)),
	}}
}

// claim writes the next token, on exactly the version that was watched.
func (o *Observer) claim() {
	var last fence.Token
	if o.version != "" {
		last = o.seen.Grant.Token
	}
	g := fence.Grant{Token: last + 1, Nonce: o.nonce(o.n + 1)}
	o.swap(Swap{Record: Record{Holder: o.cfg.Holder, Grant: g, Length: o.cfg.Times.Length}})
}

// granted begins the lease that a claim has won.
func (o *Observer) granted(w write) {
	g := w.record.Grant
	o.grant = authority.Grant{Grant: g, Name: o.cfg.Name, Length: w.record.Length}
	o.count(w.sentAt)
	if o.now >= o.stop {
		err := fmt.Errorf("the claim of token %d was answered after its own stop time and is given back", g.Token)
		o.emit(Ended{End{Reason: TooLate, Err: err}})
		o.phase = releasing
		o.next.set(o.now)
		return
	}
	o.phase, o.beat, o.lastErr = holding, o.now, nil
	o.next.set(o.base.Add(o.cfg.Times.Renew))
	o.emit(Granted{o.grant, o.stop})
}

// count sets the times of a lease whose write was sent at an instant.
func (o *Observer) count(sent Instant) {
	o.base = o.cfg.countFrom(sent, o.now)
	o.stop = o.base.Add(o.cfg.Times.Length - o.cfg.margin())
	// A rival waits from when it saw the write, which may be as late as now.
	o.gone = o.now.Add(o.cfg.Times.Length).Add(o.cfg.Times.Length / RateError)
}

// fail ends the attempt. A claim whose answer was lost is looked for afterwards,
// and given back.
func (o *Observer) fail(e End) {
	o.emit(Ended{e})
	o.phase = clearing
	o.next.set(o.now)
	o.gone = o.now.Add(o.cfg.Times.Length)
}

func (o *Observer) quit() {
	if o.phase != over {
		o.phase = over
		o.next.off()
		o.emit(Quit{})
	}
}
