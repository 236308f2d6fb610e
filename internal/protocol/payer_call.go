package protocol

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// call asks the remote side: PENDING is noted. What was surely never asked for is
// not left to anybody: its record is taken back.
func (p *Payer) call() {
	switch {
	case p.may():
		p.phase = payCalls
		p.calls++
		p.try()
		p.emit(Call{Try: p.n, Key: p.cfg.Key, Deadline: p.now.Add(p.cfg.CallTimeout)})
	case p.calls == 0 && !p.doubt:
		p.why = p.leaseOver()
		p.settle(NotBegun, "")
	default:
		p.close(Closed{State: PayPending, Err: errors.Join(p.leaseOver(), p.why)})
	}
}

// called takes the remote side's answer. A refusal is the end of the effect only
// if no other call of it can still be on its way.
func (p *Payer) called(ev Called) {
	switch {
	case ev.Err == nil:
		p.why = nil
		p.settle(PayDone, ev.Result)
	case errors.Is(ev.Err, ErrNotDone) && p.calls == 1 && !p.doubt:
		p.why = ev.Err
		p.settle(NotBegun, "")
	case errors.Is(ev.Err, ErrNotDone):
		p.close(Closed{State: PayPending, Err: ev.Err})
	default:
		p.doubt = true
		p.why = fmt.Errorf("%w: %w", fence.ErrUnknown, ev.Err)
		if p.cfg.TakesKeys {
			p.retry()
			return
		}
		p.settle(PayUnknown, "")
	}
}

// settle notes what is known now. It is not bound to the stop time: whether it
// still may is up to the fence.
func (p *Payer) settle(s PayState, result string) {
	p.settling(s)
	p.goal.Result = result
	p.write()
}

func (p *Payer) settling(s PayState) {
	p.phase = paySettles
	p.base = p.seen
	p.till = p.now.Add(settleFor * p.cfg.Timeout)
	p.goal = Receipt{}
	if s != NotBegun {
		p.goal = Receipt{State: s, Grant: p.cfg.Grant, Nonce: p.cfg.Nonce}
	}
}

// insist goes by the record as it is while the machine settles. That the effect
// is done is stronger than whatever others know of it.
func (p *Payer) insist() {
	r := p.seen
	switch {
	case r == p.goal:
		p.close(Closed{State: r.State, Result: r.Result, Err: p.why})
	case r == p.base, p.mine(r) && r.State == PayPending, p.goal.State == PayDone && r.State != PayDone:
		p.write()
	default: // somebody has gone on from here
		p.close(Closed{State: r.State, Result: r.Result, Err: p.why})
	}
}

// again looks at the record once more, after a conflict or a pause.
func (p *Payer) again() {
	switch {
	case p.phase != paySettles:
		p.begin()
	case p.now >= p.till:
		p.close(Closed{State: p.goal.State, Result: p.goal.Result, Err: fmt.Errorf("its record could not be written: %w", p.last)})
	default:
		p.fetch()
	}
}

// cancel begins nothing any more. What is under way is settled.
func (p *Payer) cancel(cause error) {
	if p.over != nil || p.phase == payClosed {
		return
	}
	p.over = cause
	if cause == nil {
		p.over = errors.New("cancelled")
	}
	switch {
	case p.phase == payFresh || p.phase == payLooks:
		p.close(Closed{State: p.seen.State, Err: p.leaseOver()})
	case p.busy == 0:
		p.next.sooner(p.now)
	}
}

func (p *Payer) close(e Closed) {
	p.phase = payClosed
	p.busy = 0
	p.next.off()
	p.emit(e)
	p.emit(Quit{})
}
