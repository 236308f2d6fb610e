package explore

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// maxRate is the most that a clock may gain or lose, in millionths: the bound
// that margins pay for.
const maxRate = 1_000_000 / protocol.RateError

// verb is a kind of fault.
type verb struct {
	who   string // "net" or "lock"; empty: a machine
	peer  bool   // has another machine
	early bool   // before the run begins
	do    func(r *run, f Fault)
}

var verbs map[string]verb

func init() { // not a literal: the functions reach the table again
	verbs = map[string]verb{
		"start":   {do: func(r *run, f Fault) { r.start(f.Who) }},
		"pause":   {do: (*run).pause},
		"suspend": {do: (*run).suspend},
		"crash":   {do: (*run).crash},
		"wall":    {do: (*run).wall},
		"rate":    {early: true, do: (*run).rate},
		"freeze":  {do: (*run).ask},
		"lose":    {do: (*run).ask},
		"cancel":  {do: (*run).ask},
		"pass":    {do: (*run).ask, peer: true},
		"promote": {do: (*run).ask},
		"cut":     {do: (*run).cut, peer: true},
		"island":  {do: (*run).island},
		"slow":    {do: (*run).slow},
		"delay":   {who: "net", do: (*run).link},
		"jitter":  {who: "net", do: (*run).link},
		"loss":    {who: "net", do: (*run).link},
		"twice":   {who: "net", do: (*run).link},
		"reorder": {who: "net", do: (*run).link},
		"elect":   {who: "lock", do: func(r *run, f Fault) { r.elect(f) }},
		"use":     {who: "lock", do: func(r *run, f Fault) { r.use(f) }},
		"restore": {who: "lock", early: true, do: (*run).restore},
	}
}

func (r *run) start(who string) {
	if start := r.starts[who]; start != nil && !r.started[who] && r.w.Find(who).Up() {
		r.started[who] = true
		start()
	}
}

// ask asks something of an actor.
func (r *run) ask(f Fault) {
	if act := r.acts[f.Who]; act != nil && r.w.Find(f.Who).Up() {
		act(f.What, f)
	}
}

func (r *run) pause(f Fault) {
	m := r.w.Find(f.Who)
	if !m.Up() || m.Paused() {
		return
	}
	r.note(world.Event{Who: f.Who, What: "pauses", Until: r.w.Now() + f.For})
	m.Pause(f.For)
}

func (r *run) crash(f Fault) {
	m := r.w.Find(f.Who)
	if !m.Up() || f.Who == "store" {
		return
	}
	m.Crash()
	r.note(world.Event{Who: f.Who, What: "crashes", Until: r.w.Now() + f.For})
	r.w.After(f.For, world.OrderFault, func() {
		r.note(world.Event{Who: f.Who, What: "restarts"})
		r.started[f.Who] = true // by its machine
		m.Restart()
	})
}

func (r *run) wall(f Fault) {
	r.w.Find(f.Who).Wall.Jump(f.By)
	what := "wall-set" // nobody goes by it
	if r.without(protocol.RuleMonotonic) {
		what = "wall-steps"
	}
	r.note(world.Event{Who: f.Who, What: what, Clock: f.By})
}

// rate changes a clock before the run, or on the way.
func (r *run) rate(f Fault) {
	m := r.w.Find(f.Who)
	set := func() {
		m.Mono.SetRate(int64(f.N))
		m.Wall.SetRate(int64(f.N))
		r.note(world.Event{Who: f.Who, What: "clock-rate", Count: f.N, Why: fmt.Sprintf("%+d ppm", f.N)})
	}
	if f.At == 0 {
		set()
		return
	}
	r.w.At(f.At, world.OrderFault, set)
}

// suspend is a pause in which the monotonic clock may stand still (N: 1).
func (r *run) suspend(f Fault) {
	m := r.w.Find(f.Who)
	if !m.Up() || m.Paused() {
		return
	}
	r.note(world.Event{Who: f.Who, What: "suspends", Until: r.w.Now() + f.For, Count: f.N})
	m.MonoSleeps = f.N == 1
	m.Suspend(f.For)
}

// island cuts a machine off from the lock service: in both directions, or (N: 1)
// what it sends, or (N: 2) what it is sent. The store stays in reach.
func (r *run) island(f Fault) {
	for _, n := range r.p.nodes() {
		if f.N != 2 {
			r.cut(Fault{Who: f.Who, Peer: n, For: f.For})
		}
		if f.N != 1 {
			r.cut(Fault{Who: n, Peer: f.Who, For: f.For})
		}
	}
}

// cut cuts one direction. Cuts that overlap are counted.
func (r *run) cut(f Fault) {
	from, to := r.w.Find(f.Who), r.w.Find(f.Peer)
	if from == to {
		return
	}
	key := [2]string{f.Who, f.Peer}
	r.cuts[key]++
	r.w.Net.Link(from, to).Cut = true
	r.note(world.Event{Who: f.Who, What: "cut-off", Peer: f.Peer, Until: r.w.Now() + f.For})
	r.w.After(f.For, world.OrderFault, func() {
		if r.cuts[key]--; r.cuts[key] == 0 {
			r.w.Net.Link(from, to).Cut = false
		}
	})
}

// slow makes every way to and from a machine longer for a while.
func (r *run) slow(f Fault) {
	m := r.w.Find(f.Who)
	r.note(world.Event{Who: f.Who, What: "slow", Until: r.w.Now() + f.For, Clock: f.By})
	add := func(by time.Duration) {
		for _, o := range r.w.Machines() {
			if o != m {
				r.w.Net.Link(m, o).Delay += by
				r.w.Net.Link(o, m).Delay += by
			}
		}
	}
	add(f.By)
	r.w.After(f.For, world.OrderFault, func() { add(-f.By) })
}

// link makes the whole network worse for a while.
func (r *run) link(f Fault) {
	r.note(world.Event{Who: "net", What: f.What, Count: f.N, Until: r.w.Now() + f.For})
	r.links(f, 1)
	r.w.After(f.For, world.OrderFault, func() { r.links(f, -1) })
}

func (r *run) links(f Fault, sign int) {
	all := r.w.Machines()
	for _, from := range all {
		for _, to := range all {
			if from == to {
				continue
			}
			l := r.w.Net.Link(from, to)
			switch f.What {
			case "delay":
				l.Delay += time.Duration(sign) * f.By
			case "jitter":
				l.Jitter += time.Duration(sign) * f.By
			case "loss":
				l.Loss += sign * f.N
			case "twice":
				l.Twice += sign * f.N
			case "reorder":
				l.Reorder += sign * f.N
			}
		}
	}
}

func (r *run) elect(f Fault) {
	if r.raft != nil {
		r.raft.elect(f.N)
	}
	if r.lock == nil {
		return
	}
	i := max(f.N, 0)
	if r.lock.nodes[i%len(r.lock.nodes)] == r.lock.leader {
		i++
	}
	n := r.lock.nodes[i%len(r.lock.nodes)]
	if n != r.lock.leader && r.lock.majority(n) {
		r.note(world.Event{Who: n.m.Name, What: "elected", Term: r.lock.term + 1})
		r.lock.elect(n)
	}
}

func (r *run) use(f Fault) {
	if r.raft != nil {
		r.raft.use(min(max(f.N, 1), 1000))
	}
	if r.lock != nil && r.lock.leader.l.Leads() {
		r.lock.use(min(max(f.N, 1), 1000))
	}
}

// restore takes a backup of the lock service at At-By, and starts the service
// again from it at At.
func (r *run) restore(f Fault) {
	if r.lock == nil && r.raft == nil {
		return
	}
	var backup []byte
	if r.raft != nil {
		r.w.At(f.At-f.By, world.OrderFault, func() { backup = r.raft.s.Backup() })
		r.w.At(f.At, world.OrderFault, func() { r.restoreRaft(f, backup) })
		return
	}
	r.w.At(f.At-f.By, world.OrderFault, func() { backup = r.lock.save() })
	r.w.At(f.At, world.OrderFault, func() {
		if !r.lock.leads(r.lock.leader) {
			return // nobody is there to restore it
		}
		r.restored(f, r.lock.restore(backup, int64(f.N)))
	})
}

func (r *run) restoreRaft(f Fault, backup []byte) {
	if backup == nil {
		return // nobody was up
	}
	r.restored(f, r.raft.s.Restore(backup, int64(f.N)))
}

// restored tells of a restore, or that the service has refused it.
func (r *run) restored(f Fault, err error) {
	e := world.Event{Who: "lock", What: "restored", Count: f.N, Until: r.w.Now() + r.p.TTL + r.p.TTL/protocol.RateError}
	if err != nil {
		e.What, e.Until, e.Why = "not-restored", 0, err.Error()
	}
	r.note(e)
}
