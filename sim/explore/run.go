package explore

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/world"
)

// job is the name of what everybody in a plan is after.
const job = "job"

// Result is what became of a run.
type Result struct {
	Broken *Broken       // the first broken promise; nil: none
	Ended  time.Duration // true time
	Done   time.Duration // when the work was done; zero: never
	Steps  uint64
	Events []world.Event // where they were asked for
}

// maxSteps is what no run needs: who answers at once, and is asked again at once,
// would never let the time go on.
const maxSteps = 1_000_000

// run is a plan's world while it goes on.
type run struct {
	p       Plan
	w       *world.World
	stage   *actor.Stage
	lock    *lock // nil where it is on raft, or there is none
	raft    *raft
	rows    *actor.Table // where a table is the store
	rights  *rights
	checks  []checker
	starts  map[string]func() // by machine
	started map[string]bool
	acts    map[string]func(string, Fault) // by machine: what else can be asked of it
	cuts    map[[2]string]int
	ends    time.Duration // of the last fault
	done    time.Duration
	limit   time.Duration
	restful time.Duration // how long a run goes on after its work is done
	broken  *Broken
	over    bool // the work is done, and the last fault has had its chance
}

// Run plays a plan. Keep asks for its events.
func Run(p Plan, keep bool) Result { return newRun(p, keep).play() }

// Detailed plays a plan and keeps all its events, those too that only a debugging
// reader wants. The checkers do not see these: they find what they find in Run.
func Detailed(p Plan) Result {
	r := newRun(p, true)
	r.w.Log.Detail = true
	return r.play()
}

func (r *run) play() Result {
	for r.broken == nil && !r.over && r.w.Step(r.limit) {
		if r.w.Steps() > maxSteps {
			r.broken = &Broken{PromiseEnd, fmt.Sprintf("%d steps, and it is %s", maxSteps, world.Seconds(r.w.Now())), r.w.Now(), r.w.Log.Len()}
		}
	}
	if r.broken == nil && r.done == 0 {
		r.broken = &Broken{PromiseDone, "it is not done " + world.Seconds(r.limit-r.p.Quiet) + " s after the last fault", r.w.Now(), r.w.Log.Len()}
	}
	return Result{r.broken, r.w.Now(), r.done, r.w.Steps(), r.w.Log.Events()}
}

func newRun(p Plan, keep bool) *run {
	w := world.New(p.Seed)
	w.Log.Keep = keep
	r := &run{
		p: p, w: w, rights: &rights{election: p.Kind == Election, ttl: p.TTL}, restful: 2 * time.Second,
		starts: map[string]func(){}, started: map[string]bool{}, acts: map[string]func(string, Fault){}, cuts: map[[2]string]int{},
	}
	w.Net.Default = world.Link{Delay: p.Delay}
	r.stage = &actor.Stage{World: w, Without: p.Without, Times: p.Times()}
	r.limit = p.Quiet + p.bound()
	w.Log.Watch(r.see)
	w.Run(time.Millisecond) // an instant of zero means "none" to the machines
	switch p.Kind {
	case Register:
		r.register()
	case Election:
		r.election()
	case Handover:
		r.handover()
	default:
		r.billing()
	}
	for _, f := range p.Faults {
		r.fault(f)
	}
	return r
}

// bound is how long the work may take once nothing goes wrong any more: what is
// left of a lease whose holder is gone, a new leader, and the work itself, for
// which every chunk may take a turn of each worker.
func (p Plan) bound() time.Duration {
	chunk := p.Build + p.Pace + 8*p.Delay + 2*p.Commit
	claim := p.RaiseAfter + p.TTL + 2*p.Timeout + time.Second
	if p.Raft == 1 { // votes may be split, and a client looks for the leader
		claim += 6*p.Election + 6*time.Second
	}
	return 3*p.TTL + 2*p.Election + 4*claim + 2*time.Duration(p.Chunks)*chunk + 10*time.Second
}

// see hands an event to the checkers.
func (r *run) see(e world.Event) {
	if r.broken != nil || e.Detail {
		return
	}
	for _, c := range r.checks {
		if b := c.see(e); b != nil {
			r.broken = b
			return
		}
	}
}

// finished is called when the work is done. The run goes on until the last fault
// has had its chance.
func (r *run) finished() {
	if r.done != 0 {
		return
	}
	r.done = r.w.Now()
	r.w.At(max(r.ends, r.done+r.restful), world.OrderLast, func() { r.over = true })
}

func (r *run) note(e world.Event) { r.w.Log.Add(e) }

// fault plans one fault.
func (r *run) fault(f Fault) {
	r.ends = max(r.ends, min(f.At+f.For, r.p.Quiet)) // a freeze may last longer
	verb := verbs[f.What]
	if verb.early {
		verb.do(r, f)
		return
	}
	r.w.At(f.At, world.OrderFault, func() { verb.do(r, f) })
}

// newLockStage puts a lock service into the world.
func (r *run) newLockStage() {
	if r.p.Raft == 1 {
		r.raft = newRaft(r.w, r.p)
		r.stage.Lock = r.raft
		r.raft.OnWake = r.wakes
		return
	}
	r.lock = newLock(r.w, r.p)
	r.stage.Lock = r.lock
	r.lock.OnGrant = func(name string, token int64) {
		r.note(world.Event{Who: "lock", What: "created", Name: name, Token: uint64(token)})
	}
	r.lock.OnWake = r.wakes
}

// wakes tells of a waiter that the removal of a key wakes.
func (r *run) wakes(who, key string, rev int64) {
	r.note(world.Event{Who: who, What: "woken", Name: key, Rev: uint64(rev)})
}

func (r *run) without(rule protocol.Rules) bool { return r.p.Without.Has(rule) }
