package stint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// Where the authority renews many grants at the price of one, the renewals of
// one turn leave together, and those that fall due soon go along: leases that
// were once renewed together stay together.

// renewal is one that leaves at the end of the turn.
type renewal struct {
	lease    *Lease
	try      int
	length   time.Duration
	deadline authority.Instant
}

// round is one RenewAll.
type round struct {
	tries   []leaseTry          // what is renewed, in the order of grants
	grants  []authority.Grant   //
	answers []authority.Renewal // written before the loop is told
	wanted  int                 // renewals that were not recalled; owned by the loop
	cancel  context.CancelFunc
}

type leaseTry struct {
	lease *Lease
	try   int
}

// gather sends the turn's renewals.
func (rt *runtime) gather() {
	if len(rt.renewals) == 0 {
		return
	}
	rt.joinEarly()
	rt.renewals = slices.DeleteFunc(rt.renewals, rt.unsent)
	if !slices.IsSortedFunc(rt.renewals, alike) {
		slices.SortStableFunc(rt.renewals, alike)
	}
	now := rt.now()
	for all := rt.renewals; len(all) > 0; {
		n := 1
		for n < len(all) && together(now, all[0], all[n]) {
			n++
		}
		rt.sendRound(all[:n])
		all = all[n:]
	}
	clear(rt.renewals)
	rt.renewals = rt.renewals[:0]
}

// unsent answers a renewal that was recalled in the turn that was to send it.
func (rt *runtime) unsent(r renewal) bool {
	if !r.lease.call(protocol.OpRenew, r.try).recalled {
		return false
	}
	a := protocol.Answer{Op: protocol.OpRenew, Try: r.try, Err: context.Canceled}
	rt.post(posted{lease: r.lease, event: a})
	return true
}

// alike orders renewals so that those that may go together are neighbours.
func alike(a, b renewal) int {
	return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.deadline, b.deadline))
}

// together reports whether a later renewal may go with an earlier one. The
// answers of a round come all at once, so those of one length go together, and
// none gives up more than a tenth of the time that it may wait.
func together(now authority.Instant, first, later renewal) bool {
	return first.length == later.length &&
		first.deadline.Sub(now) >= later.deadline.Sub(now)/10*9
}

// joinEarly lets the renewals that fall due soon go along.
func (rt *runtime) joinEarly() {
	now := rt.now()
	limit := now
	for _, r := range rt.renewals {
		limit = max(limit, now.Add(r.lease.machine.Early()))
	}
	rt.early = rt.timers.until(rt.early[:0], 0, limit, ticksPerTurn)
	for _, l := range rt.early {
		if len(rt.renewals) >= ticksPerTurn {
			break // the next round is theirs
		}
		if l.granted && len(l.calls) == 0 { // held, and nothing is under way
			rt.beat(l)
			rt.stepAt(l, rt.now(), protocol.RenewEarly{})
		}
	}
	clear(rt.early)
}

// sendRound begins one RenewAll. Its answers come back as one thing to do.
func (rt *runtime) sendRound(all []renewal) {
	ctx, cancel := rt.callContext(all[0].deadline)
	n := len(all)
	r := &round{tries: make([]leaseTry, n), grants: make([]authority.Grant, n), wanted: n, cancel: cancel}
	for i, one := range all {
		r.tries[i], r.grants[i] = leaseTry{one.lease, one.try}, one.lease.machine.Grant()
		one.lease.call(protocol.OpRenew, one.try).round = r
	}
	rt.calls.queue(job{urgent, func() {
		err := notSent(ctx)
		if err == nil {
			r.answers = rt.bulk.RenewAll(ctx, r.grants)
			if len(r.answers) != n {
				err = fmt.Errorf("the authority gave %d answers to %d renewals", len(r.answers), n)
			}
		}
		if err != nil {
			r.answers = slices.Repeat([]authority.Renewal{{Err: err}}, n)
		}
		cancel()
		rt.post(posted{do: func() { rt.answered(r) }})
	}})
}

// answered hands the answers of a round to its machines.
func (rt *runtime) answered(r *round) {
	for i, t := range r.tries {
		l := t.lease
		l.dropCall(protocol.OpRenew, t.try)
		if !l.running {
			continue
		}
		now := rt.now()
		a := protocol.Answer{Op: protocol.OpRenew, Try: t.try, Grant: r.answers[i].Grant, Err: r.answers[i].Err}
		out := rt.takeOut()
		l.machine.AnswerInto(out, now, a)
		if rt.trace != nil {
			rt.trace(l, now, a, out.AppendTo(nil, l.machine))
		}
		rt.performAll(l, out)
	}
}

// leave notes that a renewal is not wanted any more. A round under way is
// ended when none of it is; otherwise it goes on, and so does the recalled
// renewal: a release waits for it, and is the last thing that is sent.
func (r *round) leave() {
	if r.wanted--; r.wanted == 0 {
		r.cancel()
	}
}
