package actor

import (
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
	Job   string
	Every time.Duration // from one payment to the next
	Call  time.Duration // from the record to the bank, and from its answer to the next record
	// Pending is what a PENDING of an older token means: "unknown" (it is asked
	// again only if the bank takes the same key), "repeat" or "done".
	Pending string
}

// Payer pays through a bank that knows no tokens. What protects a payment is its
// record: PENDING before the bank is asked, DONE after.
type Payer struct {
	stage   *Stage
	m       *world.Machine
	records *store.Records
	bank    *store.Bank
	at      *world.Machine // where the records lie, and the bank
	cfg     PayerConfig
	h       *Holder
	token   fence.Token
}

// NewPayer makes a payer that waits for Start.
func NewPayer(s *Stage, m, at *world.Machine, r *store.Records, b *store.Bank, cfg PayerConfig) *Payer {
	return &Payer{stage: s, m: m, at: at, records: r, bank: b, cfg: cfg}
}

// Start begins to wait for the lease.
func (p *Payer) Start() {
	p.h = NewHolder(p.stage, p.m, protocol.Config{Name: p.cfg.Job, Prefix: p.m.Name, Times: p.stage.Times, Wait: true})
	p.h.OnGranted = func(g authority.Grant) {
		p.token = g.Token
		p.ask(func() error { return p.records.Raise(p.token) }, func() { p.pay(1) })
	}
	p.h.Start()
}

// ask does one thing where the records lie; ok is not called when it is refused.
func (p *Payer) ask(f func() error, ok func()) {
	ok = once(ok)
	p.stage.World.Net.Call(p.m, p.at, func(answer func(func())) {
		err := f()
		if err != nil {
			p.log("write-refused", 0, world.Event{Mark: "refused", Fence: uint64(p.records.Fence()), Why: fmt.Sprintf("%d < %d", p.token, p.records.Fence())})
		}
		answer(func() {
			if err != nil {
				p.close("the store refused its write")
				return
			}
			ok()
		})
	})
}

func (p *Payer) log(what string, n int, e world.Event) {
	e.What, e.Name, e.Token, e.Chunk = what, p.cfg.Job, uint64(p.token), n
	p.stage.log(p.m, e)
}

// pay looks at the record of a payment.
func (p *Payer) pay(n int) {
	if n > p.records.Len() {
		p.close("every payment has its record")
		return
	}
	if !p.h.Holding() {
		p.close("its own check says that the lease is over")
		return
	}
	var r store.Record
	p.ask(func() error {
		r = p.records.Get(n)
		return nil
	}, func() { p.found(n, r) })
}

// found goes by the record of a payment.
func (p *Payer) found(n int, r store.Record) {
	next := func() { p.m.Mono.After(p.cfg.Every, func() { p.pay(n + 1) }) }
	switch {
	case r.State == store.NoRecord:
		p.set(n, store.Pending, func() { p.call(n, next) })
	case r.State != store.Pending:
		p.pay(n + 1)
	case p.cfg.Pending == "done":
		p.log("takes-as-done", n, world.Event{State: string(r.State), Why: fmt.Sprintf("PENDING by %d", r.Token)})
		p.set(n, store.Paid, next)
	case p.cfg.Pending == "repeat" || p.bank.TakesKeys():
		p.log("asks-bank-again", n, world.Event{State: string(r.State), Why: fmt.Sprintf("PENDING by %d", r.Token)})
		p.set(n, store.Pending, func() { p.call(n, next) })
	default:
		p.log("leaves-open", n, world.Event{State: string(store.Unknown), Why: fmt.Sprintf("PENDING by %d, and the bank takes no key: only a person can find out", r.Token)})
		p.set(n, store.Unknown, next)
	}
}

func (p *Payer) set(n int, s store.RecordState, ok func()) {
	p.ask(func() error {
		err := p.records.Set(n, s, p.token)
		if err == nil {
			p.log("record", n, world.Event{State: string(s)})
		}
		return err
	}, func() { p.m.Mono.After(p.cfg.Call, ok) })
}

// call asks the bank. The key is the payment's own, the same for every holder.
func (p *Payer) call(n int, next func()) {
	paid := once(func() { p.m.Mono.After(p.cfg.Call, func() { p.set(n, store.Paid, next) }) })
	p.stage.World.Net.Call(p.m, p.at, func(answer func(func())) {
		what, e := "paid", world.Event{Rows: 1, Peer: "bank"}
		times, now := p.bank.Pay(n, fmt.Sprintf("%s/%d", p.cfg.Job, n))
		switch {
		case !now:
			what, e.Rows = "paid-before", 0
		case times > 1:
			e.Count, e.Mark, e.Why = times, "twice", "it has made it before"
		}
		p.log(what, n, e)
		answer(paid)
	})
}

func (p *Payer) close(why string) {
	p.log("lets-go", 0, world.Event{Why: why})
	p.h.Cancel(errors.New(why))
	p.h.Release()
}
