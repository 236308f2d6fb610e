package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// PayerConfig is how a payer goes about its payments.
type PayerConfig struct {
	Job     string
	Every   time.Duration // from one payment to the next
	Call    time.Duration // from the record to the bank, and from its answer to the next record
	Without protocol.PayerRules
}

// Payer drives a protocol.Payer for each payment of a job, one after the other,
// over the records in a store and a bank that knows no tokens.
type Payer struct {
	stage   *Stage
	m       *world.Machine
	records *store.Records
	bank    *store.Bank
	at      *world.Machine // where the records lie, and the bank
	cfg     PayerConfig
	h       *Holder
	grant   fence.Grant
	p       *protocol.Payer
	n       int // the payment
	alarm   *world.Alarm
}

// NewPayer makes a payer that waits for Start.
func NewPayer(s *Stage, m, at *world.Machine, r *store.Records, b *store.Bank, cfg PayerConfig) *Payer {
	return &Payer{stage: s, m: m, at: at, records: r, bank: b, cfg: cfg}
}

// Start begins to wait for the lease.
func (p *Payer) Start() {
	p.h = NewHolder(p.stage, p.m, protocol.Config{Name: p.cfg.Job, Prefix: p.m.Name, Times: p.stage.Times, Wait: true})
	p.h.OnGranted = func(g authority.Grant) {
		p.grant = g.Grant
		p.ask(func() error { return p.records.Raise(g.Token) }, func(err error) {
			if err != nil {
				p.close("the store refused its write")
				return
			}
			p.pay(1)
		})
	}
	p.h.Start()
}

// ask does one thing where the records lie.
func (p *Payer) ask(f func() error, done func(error)) {
	heard := false
	p.stage.World.Net.Call(p.m, p.at, func(answer func(func())) {
		err := f()
		if errors.Is(err, fence.ErrStale) {
			p.log("write-refused", 0, world.Event{Mark: "refused", Fence: uint64(p.records.Fence()), Why: fmt.Sprintf("%d < %d", p.grant.Token, p.records.Fence())})
		}
		answer(func() {
			if !heard { // the network may bring a request twice
				heard = true
				done(err)
			}
		})
	})
}

func (p *Payer) log(what string, n int, e world.Event) {
	e.What, e.Name, e.Token, e.Chunk = what, p.cfg.Job, uint64(p.grant.Token), n
	p.stage.log(p.m, e)
}

// pay begins with a payment.
func (p *Payer) pay(n int) {
	if n > p.records.Len() {
		p.close("every payment has its record")
		return
	}
	p.n = n
	p.p = protocol.NewPayer(protocol.PayerConfig{
		Key: fmt.Sprintf("%s/%d", p.cfg.Job, n), Grant: p.grant, Nonce: fmt.Sprintf("%s%d", p.m.Name, n),
		TakesKeys: p.bank.TakesKeys(), Timeout: p.stage.Times.Timeout, Without: p.cfg.Without,
	})
	p.step(p.p, protocol.Start{})
}

// step tells a payment's machine of an event, and until when the lease is held.
func (p *Payer) step(m *protocol.Payer, e protocol.Event) {
	if m != p.p {
		return
	}
	now := p.m.Mono.Now()
	out := m.Step(now, protocol.Extended{Stop: p.h.Stop()})
	if !p.h.h.Holding() {
		out = append(out, m.Step(now, protocol.Cancel{})...)
	}
	for _, effect := range append(out, m.Step(now, e)...) {
		p.perform(m, effect)
	}
}

func (p *Payer) perform(m *protocol.Payer, effect protocol.Effect) {
	switch e := effect.(type) {
	case protocol.Arm:
		p.alarm.Stop()
		p.alarm = nil
		if e.At != 0 {
			p.alarm = p.m.Mono.Alarm(e.At, world.OrderTimer, func() { p.step(m, protocol.Tick{}) })
		}
	case protocol.Fetch:
		p.fetch(m, e)
	case protocol.Note:
		p.note(m, e)
	case protocol.Call:
		p.call(m, e)
	case protocol.Found:
		p.found(e)
	case protocol.Closed:
		p.closed(e)
	}
}

// expect makes a request answered once: after some time, or at its deadline.
func (p *Payer) expect(m *protocol.Payer, deadline authority.Instant, after time.Duration, late protocol.Event) (done func(protocol.Event)) {
	over := false
	alarm := p.m.Mono.Alarm(deadline, world.OrderMessage, func() {
		over = true
		p.step(m, late)
	})
	return func(e protocol.Event) {
		if over {
			return
		}
		over = true
		alarm.Stop()
		if after == 0 {
			p.step(m, e)
			return
		}
		p.m.Mono.After(after, func() { p.step(m, e) })
	}
}

func (p *Payer) fetch(m *protocol.Payer, e protocol.Fetch) {
	n := p.n
	var r protocol.Receipt
	done := p.expect(m, e.Deadline, 0, protocol.Fetched{Try: e.Try, Err: context.DeadlineExceeded})
	p.ask(func() error {
		r = receipt(p.records.Get(n))
		return nil
	}, func(error) { done(protocol.Fetched{Try: e.Try, Receipt: r}) })
}

func (p *Payer) note(m *protocol.Payer, e protocol.Note) {
	n := p.n
	done := p.expect(m, e.Deadline, p.cfg.Call, protocol.Noted{Try: e.Try, Err: context.DeadlineExceeded})
	p.ask(func() error {
		written, err := p.records.Set(n, record(e.If), record(e.Receipt), e.Grant.Token)
		if written {
			p.log("record", n, world.Event{State: string(e.Receipt.State)})
		}
		if errors.Is(err, fence.ErrChanged) {
			err = protocol.ErrConflict
		}
		return err
	}, func(err error) { done(protocol.Noted{Try: e.Try, Err: err}) })
}

// call asks the bank. The key is the payment's own, the same for every holder.
func (p *Payer) call(m *protocol.Payer, e protocol.Call) {
	n := p.n
	done := p.expect(m, e.Deadline, p.cfg.Call, protocol.Called{Try: e.Try, Err: context.DeadlineExceeded})
	p.stage.World.Net.Call(p.m, p.at, func(answer func(func())) {
		what, ev := "paid", world.Event{Rows: 1, Peer: "bank"}
		times, now := p.bank.Pay(n, e.Key)
		switch {
		case !now:
			what, ev.Rows = "paid-before", 0
		case times > 1:
			ev.Count, ev.Mark, ev.Why = times, "twice", "it has made it before"
		}
		p.log(what, n, ev)
		answer(func() { done(protocol.Called{Try: e.Try}) })
	})
}

// found tells what the machine makes of another's record.
func (p *Payer) found(e protocol.Found) {
	by := fmt.Sprintf("PENDING by %d", e.Receipt.Grant.Token)
	switch e.Means {
	case protocol.PayDone:
		p.log("takes-as-done", p.n, world.Event{State: string(e.Receipt.State), Why: by})
	case protocol.PayPending:
		p.log("asks-bank-again", p.n, world.Event{State: string(e.Receipt.State), Why: by})
	default:
		p.log("leaves-open", p.n, world.Event{State: string(e.Means), Why: by + ", and the bank takes no key: only a person can find out"})
	}
}

// closed goes on to the next payment, unless the lease is over or another's.
func (p *Payer) closed(e protocol.Closed) {
	n := p.n
	p.p = nil
	switch {
	case errors.Is(e.Err, protocol.ErrLeaseOver):
		p.close("its own check says that the lease is over")
	case errors.Is(e.Err, fence.ErrStale):
		p.close("the store refused its write")
	case e.Before:
		p.pay(n + 1)
	default:
		p.m.Mono.After(p.cfg.Every, func() { p.pay(n + 1) })
	}
}

func (p *Payer) close(why string) {
	p.log("lets-go", 0, world.Event{Why: why})
	p.h.Cancel(errors.New(why))
	p.h.Release()
}

func record(r protocol.Receipt) store.Record {
	return store.Record{State: store.RecordState(r.State), Grant: r.Grant, Nonce: r.Nonce}
}

func receipt(r store.Record) protocol.Receipt {
	return protocol.Receipt{State: protocol.PayState(r.State), Grant: r.Grant, Nonce: r.Nonce}
}
