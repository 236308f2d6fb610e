package explore

import (
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// invoices is how many a chunk has.
const invoices = 5000

func (p Plan) off() store.Off {
	has := p.Without.Has
	return store.Off{
		Fence: has(protocol.RuleFence), Equal: has(protocol.RuleEqual), Nonce: has(protocol.RuleNonce),
		Sequence: has(protocol.RuleSequence), Marker: has(protocol.RuleMarkerWithRaise), ExactOwner: has(protocol.RuleExactOwner),
	}
}

// table puts the row store into the world, with those who check it.
func (r *run) table() *actor.Table {
	t := actor.NewTable(r.stage, r.w.Machine("store"), store.NewTable(r.p.Chunks, r.p.off()), invoices)
	r.stage.Store = t
	return t
}

// resource puts what the kind of world bills into on the stage, and returns how it
// is read.
func (r *run) resource() (read func(name string) store.Job) {
	switch r.p.Kind {
	case Objects:
		b := actor.NewBucket(r.stage, r.w.Machine("store"), r.p.Chunks, invoices)
		r.stage.Store = b
		return b.Job
	case Ledger:
		l := actor.NewLedger(r.stage, r.w.Machine("store"), store.NewLedger(r.p.Chunks, r.p.off()), invoices)
		r.stage.Store = l
		return l.Ledger.Read
	}
	r.rows = r.table()
	return r.rows.Table.Read
}

// billing is the story's cast: workers, a sweeper, a lock service and a store.
func (r *run) billing() {
	read := r.resource()
	r.newLockStage()
	for _, name := range r.p.names() {
		r.worker(name)
	}
	if r.p.Sweep > 0 {
		s := actor.NewSweeper(r.stage, r.w.Machine("S"), r.rows, protocol.SweeperConfig{
			Every: r.p.Sweep, Again: r.p.Again, Longest: r.p.TTL, Timeout: r.p.Times().Timeout,
		})
		r.starts["S"] = s.Start
		s.Start()
	}
	r.checks = append(r.checks,
		&order{map[string]uint64{}},
		&books{read: read, job: job, rights: r.rights, grants: !r.without(protocol.RuleFence)},
	)
	if r.p.Kind != Forgets { // who forgets promises neither
		r.checks = append(r.checks, &grows{map[string]uint64{}, r.rights}, r.rights)
	}
	r.checks = append(r.checks, doneWhen(r, func(e world.Event) bool {
		return e.What == "done" && e.Name == job && read(job).Next() == 0
	}))
}

func (r *run) worker(name string) {
	m := r.w.Machine(name)
	w := actor.NewWorker(r.stage, m, actor.WorkerConfig{
		Job: job, Times: r.p.Times(), RaiseAfter: r.p.RaiseAfter, RaiseLate: 2 * r.p.Build, MarkAfter: r.p.Build,
		Build: r.p.Build, Pace: r.p.Pace, Again: time.Second, BeatWithin: r.p.Beat,
	})
	r.starts[name] = w.Start
	r.acts[name] = func(what string, f Fault) {
		switch {
		case w.Holder() == nil:
		case what == "freeze":
			w.Freeze(f.For)
		case what == "lose":
			w.LoseAnswer(f.Peer)
		case what == "cancel":
			w.Cancel()
		}
	}
}

// doneWhen is a checker that breaks nothing: it notices that the work is done.
func doneWhen(r *run, done func(world.Event) bool) checker { return &finish{r, done} }

type finish struct {
	r    *run
	done func(world.Event) bool
}

func (c *finish) see(e world.Event) *Broken {
	if c.r.done == 0 && c.done(e) {
		c.r.finished()
	}
	return nil
}

// register is observers of one item, who write into a table while they hold it.
func (r *run) register() {
	item := actor.NewItem(r.stage, r.w.Machine("store"), job)
	r.rows = actor.NewTable(r.stage, item.Machine(), store.NewTable(penChunks, r.p.off()), invoices)
	for _, name := range r.p.names() {
		m := r.w.Machine(name)
		o := actor.NewObserver(r.stage, m, item, protocol.ObserverConfig{
			Config: protocol.Config{Name: job, Times: r.p.Times(), Wait: true}, Holder: name,
		})
		r.actor(m, o.Start, o.Release)
		p := &pen{r: r, m: m, o: o}
		r.w.Log.Watch(func(e world.Event) {
			if e.Who == name && e.What == "granted" {
				p.granted(o.Grant().Grant)
			}
		})
		r.acts[name] = func(what string, f Fault) {
			switch what {
			case "cancel":
				o.Release()
			case "lose":
				o.LoseAnswers++
			}
		}
	}
	r.checks = append(r.checks,
		&order{map[string]uint64{}},
		&books{read: r.rows.Table.Read, job: job, rights: r.rights, grants: !r.without(protocol.RuleFence)},
		&grows{map[string]uint64{}, r.rights}, r.rights, doneWhen(r, r.turns("item-claimed")),
	)
}

// turns is done when each of those who take part has had a turn on average, and
// one after the last fault.
func (r *run) turns(what string) func(world.Event) bool {
	n := 0
	return func(e world.Event) bool {
		took := e.What == what && e.Epoch > 0 // no node of a lock service
		if took {
			n++
		}
		return took && n >= r.p.Chunks && e.T >= r.ends
	}
}

// actor makes an actor that holds for a while, lets go, and starts again.
func (r *run) actor(m *world.Machine, start, release func()) {
	turn := 0
	begin := func() {
		turn++
		start()
	}
	r.starts[m.Name] = begin
	again := func(d time.Duration, f func()) {
		mine := turn
		m.Mono.After(d, func() {
			if turn == mine {
				f()
			}
		})
	}
	r.w.Log.Watch(func(e world.Event) {
		if e.Who != m.Name {
			return
		}
		switch e.What {
		case "granted", "leads":
			if r.p.Kind != Election || e.What == "leads" {
				again(r.p.Build*4, release)
			}
		case "ended":
			again(0, release)
			again(r.p.Pace+r.p.Times().Timeout, begin)
		}
	})
}

// election is candidates in one line.
func (r *run) election() {
	r.w.Machine("store")
	r.newLockStage()
	for _, name := range r.p.names() {
		m := r.w.Machine(name)
		c := actor.NewCandidate(r.stage, m, "jobs", name)
		r.actor(m, c.Start, c.Resign)
		m.OnStart(r.starts[name])
		r.acts[name] = func(what string, f Fault) {
			switch {
			case c.Leading().IsZero():
			case what == "cancel":
				c.Resign()
			case what == "pass":
				c.Pass(f.Peer)
			}
		}
	}
	r.checks = append(r.checks, &grows{map[string]uint64{}, r.rights}, r.rights, &wakes{map[uint64]string{}}, doneWhen(r, r.turns("leads")))
}

// handover is two writers and a flag.
func (r *run) handover() {
	t := r.table()
	flag := actor.NewFlag(r.stage, t.Machine())
	for _, name := range r.p.names() {
		m := r.w.Machine(name)
		w := actor.NewWriter(r.stage, m, flag, actor.WriterConfig{Name: job, Times: r.p.Times(), Refresh: r.p.Pace, Every: r.p.Build})
		r.starts[name] = w.Start
		r.acts[name] = func(what string, f Fault) {
			if what == "promote" {
				w.Promote()
			}
		}
	}
	r.checks = append(r.checks, &order{map[string]uint64{}}, r.rights, doneWhen(r, func(e world.Event) bool { return e.What == "may-write" }))
}
