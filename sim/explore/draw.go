package explore

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

// Draw makes the plan of a seed. A seed picks a few kinds of faults and uses
// only those: a world where everything goes wrong at once hides what needs one
// thing to go wrong twice.
func Draw(seed uint64, without protocol.Rules) Plan {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	p := Plan{Seed: seed, Without: without}
	p.Kind = d.kind()
	p.Settings = d.settings(p.Kind)
	d.service(&p)
	if d.chance(50) {
		d.around = d.between(p.TTL/2, p.Quiet-p.TTL)
	}
	p.Faults = d.starts(p)
	switch p.Kind {
	case Handover:
		p.Faults = append(p.Faults, Fault{At: d.between(p.Quiet/4, p.Quiet*3/4), Who: "B", What: "promote"})
	case Election:
		p.Faults = append(p.Faults, d.some(3, func() Fault { return d.pass(p) })...)
	}
	p.Faults = append(p.Faults, d.faults(p)...)
	return p
}

func (d *drawer) kind() Kind {
	switch n := d.IntN(25); {
	case n < 12:
		return Billing
	case n < 14:
		return Objects
	case n < 16:
		return Ledger
	case n < 18:
		return Forgets
	case n < 20:
		return Register
	case n < 23:
		return Election
	}
	return Handover
}

// service draws what the lock service is: one world in ten has it on real Raft.
func (d *drawer) service(p *Plan) {
	if !p.locks() {
		return
	}
	if d.chance(30) {
		p.Nodes = 5
	}
	p.Torn = d.IntN(2)
	if d.chance(10) && p.raftable() {
		p.Raft = 1
	}
}

// drawer draws.
type drawer struct {
	*rand.Rand
	around time.Duration // faults gather after this; zero: they do not
}

func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

// between draws a time, in whole milliseconds.
func (d *drawer) between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from.Truncate(time.Millisecond) + time.Duration(d.Int64N(int64((to-from)/time.Millisecond)+1))*time.Millisecond
}

func (d *drawer) some(most int, f func() Fault) []Fault {
	var all []Fault
	for range d.IntN(most + 1) {
		all = append(all, f())
	}
	return all
}

func (d *drawer) settings(k Kind) Settings {
	s := Settings{TTL: time.Duration(2+d.IntN(9)) * time.Second}
	s.Renew = d.between(s.TTL/5, s.TTL*2/5)
	s.Timeout = d.between(s.TTL/20, s.TTL/4)
	s.Margin = d.between(s.Times().LeastMargin()+time.Millisecond, max(s.TTL/50, s.TTL-s.Renew-s.Timeout-s.TTL/10))
	s.Workers = 1 + d.IntN(3)
	s.Chunks = 2 + d.IntN(6)
	s.Delay = d.between(time.Millisecond, 20*time.Millisecond)
	s.Commit = d.between(time.Millisecond, 10*time.Millisecond)
	if d.chance(50) {
		s.Delay, s.Commit = time.Millisecond, time.Millisecond
	}
	s.Election = d.between(500*time.Millisecond, 2*time.Second)
	s.Quiet = 4 * s.TTL
	s.RaiseAfter = d.between(time.Millisecond, 500*time.Millisecond)
	s.Build = d.between(10*time.Millisecond, 500*time.Millisecond)
	s.Pace = d.between(100*time.Millisecond, s.TTL/3)
	switch k {
	case Handover:
		s.Workers, s.Pace, s.Chunks = 2, s.TTL/3, maxChunks
	case Election:
		s.Workers, s.Chunks = 3+d.IntN(3), 6
	case Billing, Forgets, Objects, Ledger:
		if d.chance(35) {
			s.Checkpoint = d.between(s.TTL/10, s.TTL/2)
			if d.chance(50) { // renewals far apart, and little to spare
				s.Renew, s.Timeout, s.Margin = s.TTL*2/5, s.TTL/10, s.TTL/20
			}
		}
		if d.chance(40) {
			s.Beat = max(s.TTL/2, 2*(s.Build+s.Pace+s.RaiseAfter), 2*s.Timeout)
		}
		if d.chance(50) && (k == Billing || k == Forgets) {
			s.Sweep = d.between(max(s.TTL/4, 3*s.Timeout), s.TTL)
			if d.chance(50) {
				s.Workers = 1 // nobody takes over: there are orphans
			}
			s.Again = d.between(s.TTL/5, s.TTL/2)
		}
	}
	return s
}

func (d *drawer) starts(p Plan) []Fault {
	var all []Fault
	for i, name := range p.names() {
		if p.Kind == Handover && i > 0 {
			break
		}
		at := time.Duration(0)
		if i > 0 {
			at = d.between(0, p.TTL)
		}
		all = append(all, Fault{At: at + time.Millisecond, Who: name, What: "start"})
	}
	return all
}

// faults draws a few kinds, and a few of each.
func (d *drawer) faults(p Plan) []Fault {
	makers := []func(Plan) Fault{d.pause, d.pause, d.suspend, d.crash, d.cut, d.island, d.slow, d.link, d.wall, d.rate, d.lose}
	switch p.Kind {
	case Billing, Objects, Ledger:
		makers = append(makers, d.freeze, d.elect, d.use, d.cancel, d.restore, d.elect)
	case Forgets:
		makers = append(makers, d.elect, d.elect, d.use)
	case Election:
		makers = append(makers, d.elect, d.cancel)
	case Register:
		makers = append(makers, d.cancel, d.wall)
	}
	var all []Fault
	d.Shuffle(len(makers), func(i, j int) { makers[i], makers[j] = makers[j], makers[i] })
	for _, f := range makers[:1+d.IntN(4)] {
		for range 1 + d.IntN(3) {
			all = append(all, f(p))
		}
	}
	if d.chance(25) { // every clock at its worst
		for _, m := range p.machines() {
			all = append(all, Fault{Who: m, What: "rate", N: maxRate * (2*d.IntN(2) - 1)})
		}
	}
	if p.Checkpoint > 0 && d.chance(40) { // a new leader, and a holder that cannot tell it of its renewals
		n := d.between(p.TTL/2, p.TTL)
		at := d.when(p, n+p.TTL/20)
		all = append(all, Fault{At: at, Who: "lock", What: "elect", N: d.IntN(3)},
			Fault{At: at + d.between(0, p.TTL/20), Who: d.one(p.names()), What: "island", For: n})
	}
	if p.Sweep > 0 && d.chance(40) { // an orphan, and a sweeper far away
		n := d.between(p.TTL, min(p.TTL+3*p.Sweep, p.Quiet*3/4))
		at := d.when(p, n)
		all = append(all, Fault{At: at, Who: "A", What: "crash", For: n},
			Fault{At: at, Who: "S", What: "slow", By: d.between(p.Timeout/4, p.Timeout/2), For: n + p.TTL/2})
	}
	return slices.DeleteFunc(all, func(f Fault) bool { return f.What == "" })
}

// when draws an instant so that the fault has ended by the quiet time.
func (d *drawer) when(p Plan, lasts time.Duration) time.Duration {
	if d.around > 0 && d.chance(70) {
		return min(d.between(d.around, d.around+p.TTL/3), p.Quiet-lasts)
	}
	return d.between(time.Millisecond, p.Quiet-lasts)
}

// length draws how long something lasts: short against a lease, or just longer.
func (d *drawer) length(p Plan) time.Duration {
	switch d.IntN(3) {
	case 0:
		return d.between(time.Millisecond, p.TTL/4)
	case 1:
		return d.between(p.TTL/4, p.TTL)
	}
	return d.between(p.TTL, 2*p.TTL)
}

func (d *drawer) one(names []string) string { return names[d.IntN(len(names))] }

func (d *drawer) pause(p Plan) Fault {
	n := d.length(p)
	who := d.one(p.names())
	if d.chance(30) {
		who = d.one(p.machines())
	}
	if p.Sweep > 0 && d.chance(20) {
		who = "S"
	}
	return Fault{At: d.when(p, n), Who: who, What: "pause", For: n}
}

// suspend is a machine that sleeps. Its monotonic clock may stand still: then it
// is not one of those whose rate stays within the bound.
func (d *drawer) suspend(p Plan) Fault {
	f := d.pause(p)
	f.What, f.N = "suspend", d.IntN(2)
	return f
}

func (d *drawer) crash(p Plan) Fault {
	n := d.length(p)
	if p.Sweep > 0 && d.chance(50) { // long enough to be swept
		n = d.between(p.TTL, p.Quiet*3/4)
	}
	who := d.one(slices.DeleteFunc(p.machines(), func(s string) bool { return s == "store" }))
	if p.Raft == 1 && d.chance(40) {
		who = d.one(p.nodes())
	}
	if p.Kind == Handover { // a writer's own restart is not part of the plan
		return Fault{}
	}
	return Fault{At: d.when(p, n), Who: who, What: "crash", For: n}
}

func (d *drawer) cut(p Plan) Fault {
	n := d.length(p)
	return Fault{At: d.when(p, n), Who: d.one(p.machines()), What: "cut", Peer: d.one(p.machines()), For: n}
}

// island cuts a machine off from the lock service alone: both ways, or one.
func (d *drawer) island(p Plan) Fault {
	n := d.length(p)
	f := Fault{At: d.when(p, n), Who: d.one(p.names()), What: "island", For: n}
	if d.chance(50) {
		f.N = 1 + d.IntN(2)
	}
	return f
}

// slow makes every way to and from a machine longer.
func (d *drawer) slow(p Plan) Fault {
	n := d.length(p)
	who := d.one(p.machines())
	if p.Sweep > 0 && d.chance(40) {
		who = "S"
	}
	return Fault{At: d.when(p, n), Who: who, What: "slow", By: d.between(p.Timeout/4, p.Timeout/2), For: n}
}

func (d *drawer) link(p Plan) Fault {
	n := d.length(p)
	f := Fault{At: d.when(p, n), Who: "net", For: n}
	switch d.IntN(5) {
	case 0:
		f.What, f.By = "delay", d.between(time.Millisecond, p.TTL/4)
	case 1:
		f.What, f.By = "jitter", d.between(time.Millisecond, p.TTL/4)
	case 2:
		f.What, f.N = "loss", 1000*(1+d.IntN(400))
	case 3:
		f.What, f.N = "twice", 1000*(1+d.IntN(400))
	default:
		f.What, f.N = "reorder", 1000*(1+d.IntN(400))
	}
	return f
}

func (d *drawer) wall(p Plan) Fault {
	by := d.between(-p.TTL, p.TTL)
	return Fault{At: d.when(p, 0), Who: d.one(p.names()), What: "wall", By: by}
}

func (d *drawer) rate(p Plan) Fault {
	f := Fault{Who: d.one(p.machines()), What: "rate", N: d.IntN(2*maxRate+1) - maxRate}
	if d.chance(50) { // it changes on the way, to the worst
		f.At, f.N = d.when(p, 0), maxRate*(2*d.IntN(2)-1)
	}
	return f
}

func (d *drawer) lose(p Plan) Fault {
	if p.Kind == Election || p.Kind == Handover {
		return Fault{}
	}
	return Fault{At: d.when(p, 0), Who: d.one(p.names()), What: "lose", Peer: d.one([]string{"acquire", "renew", "release", "raise", "write", "write", "finish"})}
}

// freeze makes the work stand still for longer than the run may take: only a
// lease that is not renewed any more lets somebody else finish it.
func (d *drawer) freeze(p Plan) Fault {
	if p.Beat > 0 && d.chance(70) {
		return Fault{At: d.when(p, 0), Who: "A", What: "freeze", For: time.Hour}
	}
	n := d.length(p)
	return Fault{At: d.when(p, n), Who: d.one(p.names()), What: "freeze", For: n}
}

func (d *drawer) cancel(p Plan) Fault {
	return Fault{At: d.when(p, 0), Who: d.one(p.names()), What: "cancel"}
}

func (d *drawer) pass(p Plan) Fault {
	return Fault{At: d.when(p, 0), Who: d.one(p.names()), What: "pass", Peer: d.one(p.names())}
}

func (d *drawer) elect(p Plan) Fault {
	return Fault{At: d.when(p, 0), Who: "lock", What: "elect", N: d.IntN(len(p.nodes()))}
}

func (d *drawer) use(p Plan) Fault {
	return Fault{At: d.when(p, 0), Who: "lock", What: "use", N: 1 + d.IntN(5)}
}

// restore starts the service again from a backup. Where it is the second one,
// its bump may be too small.
func (d *drawer) restore(p Plan) Fault {
	age := d.between(time.Millisecond, p.Quiet/2)
	return Fault{At: d.between(age+time.Millisecond, p.Quiet), Who: "lock", What: "restore", By: age, N: 1_000_000 * (1 + d.IntN(3))}
}
