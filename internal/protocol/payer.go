package protocol

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// payPhase is what a payer is about.
type payPhase uint8

const (
	payFresh payPhase = iota
	payLooks          // at the record
	payNotes          // that it is about to call
	payCalls
	paySettles // notes what came of it
	payClosed
)

// settleFor is how many time-outs a payer takes to note what it knows, before it
// tells it without a record.
const settleFor = 10

// Payer does one effect at a remote side that knows no tokens: a payment, a mail.
// What protects it is its record, in a store with a fence: PENDING is noted
// before the remote side is asked, DONE after it has answered. PENDING of another
// means that nobody knows: the remote side is asked again only where it takes the
// same key, else it is left to a person. It is not safe for concurrent use.
type Payer struct {
	cfg   PayerConfig
	phase payPhase
	now   Instant
	out   []Effect
	alarm alarm

	n    int
	busy int     // the one request under way; 0: none
	next timer   // when to try again
	till Instant // the end of the tries to settle
	stop Instant
	over error // why nothing is begun any more, before the stop time

	seen  Receipt // the record as it was last seen
	base  Receipt // as it was when the settling began
	goal  Receipt // what is being noted
	calls int
	// doubt says that a call may still be carried out, of another or of this
	// machine: that it was refused, too, says nothing then.
	doubt bool
	why   error // what Closed will say
	last  error // the last trouble with the store
}

// NewPayer makes a machine that waits for Start.
func NewPayer(cfg PayerConfig) *Payer {
	cfg = cfg.withDefaults()
	return &Payer{cfg: cfg, stop: cfg.Stop}
}

// Step is told the time and an event, and returns what is to be done, in order.
func (p *Payer) Step(now Instant, ev Event) []Effect {
	p.now = now
	switch ev := ev.(type) {
	case Start:
		if p.phase == payFresh {
			p.phase = payLooks
			p.begin()
		}
	case Extended:
		p.stop = max(p.stop, ev.Stop)
	case Fetched:
		if p.answered(ev.Try) {
			p.fetched(ev)
		}
	case Noted:
		if p.answered(ev.Try) {
			p.noted(ev.Err)
		}
	case Called:
		if p.answered(ev.Try) {
			p.called(ev)
		}
	case Cancel:
		p.cancel(ev.Cause)
	case Tick:
		p.alarm.rings()
	default:
		panic(fmt.Sprintf("protocol: unknown event %T", ev))
	}
	p.due()
	if e, news := p.alarm.want(p.next); news {
		p.emit(e)
	}
	out := p.out
	p.out = nil
	return out
}

func (p *Payer) emit(e Effect) { p.out = append(p.out, e) }

// answered says whether an answer is that of the request under way: there is one
// at a time, and the driver answers it at its deadline at the latest.
func (p *Payer) answered(try int) bool {
	if p.phase == payClosed || p.busy == 0 || p.busy != try {
		return false
	}
	p.busy = 0
	return true
}

// may says whether something may be begun under the lease.
func (p *Payer) may() bool { return p.over == nil && p.now < p.stop }

func (p *Payer) leaseOver() error {
	if p.over != nil {
		return fmt.Errorf("%w: %w", ErrLeaseOver, p.over)
	}
	return ErrLeaseOver
}

// begin looks at the record, as long as something may follow from that. A note
// whose answer was lost is taken back, if it is there: nothing was called.
func (p *Payer) begin() {
	switch {
	case p.may():
		p.fetch()
	case p.phase == payNotes && !p.doubt:
		p.why = p.leaseOver()
		p.settling(NotBegun)
		p.fetch()
	default:
		p.close(Closed{State: p.seen.State, Err: p.leaseOver()})
	}
}

func (p *Payer) fetch() {
	p.try()
	p.emit(Fetch{Try: p.n, Key: p.cfg.Key, Deadline: p.now.Add(p.cfg.Timeout)})
}

func (p *Payer) try() {
	p.n++
	p.busy = p.n
	p.next.off()
}

// due tries again after a pause.
func (p *Payer) due() {
	if p.busy != 0 || !p.next.due(p.now) {
		return
	}
	switch p.phase {
	case payLooks, payNotes, paySettles: // a note without an answer is settled by a look
		p.again()
	case payCalls:
		p.call()
	}
}

func (p *Payer) retry() { p.next.set(p.now.Add(p.cfg.Timeout / 3)) }

func (p *Payer) fetched(ev Fetched) {
	if ev.Err != nil {
		p.last = ev.Err
		p.retry()
		return
	}
	p.seen = ev.Receipt
	if p.phase == paySettles {
		p.insist()
		return
	}
	p.look()
}

// look goes by the record, before anything was called.
func (p *Payer) look() {
	r := p.seen
	switch {
	case r.State == NotBegun:
		p.note()
	case r.State != PayPending:
		p.close(Closed{State: r.State, Result: r.Result, Before: true})
	case p.mine(r): // its own note, whose answer was lost
		p.call()
	case r.Grant.Token > p.cfg.Grant.Token:
		p.close(Closed{State: PayPending, Err: &fence.StaleError{Name: p.cfg.Key, Presented: p.cfg.Grant.Token, Fence: r.Grant.Token}})
	default:
		p.pending(r)
	}
}

// mine says whether this machine has written a record.
func (p *Payer) mine(r Receipt) bool { return r.Grant == p.cfg.Grant && r.Nonce == p.cfg.Nonce }

// pending is what PENDING of another means: an older holder, or another machine
// of this one, has called, is about to, or never will.
func (p *Payer) pending(r Receipt) {
	p.doubt = true
	switch {
	case p.cfg.Without&PayAnswered != 0:
		p.emit(Found{r, PayDone})
		p.settle(PayDone, "")
	case p.cfg.TakesKeys, p.cfg.Without&PayTakesKey != 0:
		p.emit(Found{r, PayPending})
		p.note()
	default:
		p.emit(Found{r, PayUnknown})
		p.why = fmt.Errorf("%w: PENDING by %v, and the remote side takes no key: only a person can find out", fence.ErrUnknown, r.Grant)
		p.settle(PayUnknown, "")
	}
}

// note writes PENDING, if the record still is as it was seen.
func (p *Payer) note() {
	if !p.may() {
		p.close(Closed{State: p.seen.State, Err: p.leaseOver()})
		return
	}
	p.phase = payNotes
	p.goal = Receipt{State: PayPending, Grant: p.cfg.Grant, Nonce: p.cfg.Nonce}
	p.write()
}

func (p *Payer) write() {
	p.try()
	p.emit(Note{Try: p.n, Key: p.cfg.Key, If: p.seen, Receipt: p.goal, Grant: p.cfg.Grant, Deadline: p.now.Add(p.cfg.Timeout)})
}

func (p *Payer) noted(err error) {
	switch {
	case err == nil:
		p.seen = p.goal
		if p.phase == payNotes {
			p.call()
			return
		}
		p.close(Closed{State: p.goal.State, Result: p.goal.Result, Err: p.why})
	case errors.Is(err, ErrConflict):
		p.last = err
		p.again()
	case refusedByFence(err):
		state := p.seen.State
		if p.phase == paySettles {
			state = p.goal.State
		}
		p.close(Closed{State: state, Result: p.goal.Result, Err: err})
	default:
		p.last = err
		p.retry()
	}
}

func refusedByFence(err error) bool {
	return errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrRepeated) ||
		errors.Is(err, fence.ErrNoFence) || errors.Is(err, fence.ErrNotRaised)
}
