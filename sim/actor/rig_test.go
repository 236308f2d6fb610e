package actor

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// rig is a world with a table and a lock that a test holds in its hands.
type rig struct {
	t     *testing.T
	s     *Stage
	w     *world.World
	lock  *handLock
	table *Table
}

// handLock grants one at a time for each name, at once, and lets go only when it
// is told to.
type handLock struct {
	m     *world.Machine
	w     *world.World
	token fence.Token
	held  map[string]authority.Grant
	deaf  bool // takes no request
}

func (l *handLock) Call(from *world.Machine, r Request, answer func(protocol.Answer)) {
	l.w.Net.Call(from, l.m, func(back func(func())) {
		if l.deaf {
			return
		}
		a := l.do(r)
		back(func() { answer(a) })
	})
}

func (l *handLock) do(r Request) protocol.Answer {
	name := r.Ask.Name
	g, held := l.held[name]
	switch {
	case r.Op == protocol.OpAcquire && held:
		return protocol.Answer{Err: &authority.HeldError{State: authority.State{Name: name, Held: true, Grant: g.Grant}}}
	case r.Op == protocol.OpAcquire:
		l.token++
		g = authority.Grant{Grant: fence.Grant{Token: l.token, Nonce: r.Ask.Nonce}, Name: name, Length: r.Ask.Length}
		l.held[name] = g
		return protocol.Answer{Grant: g}
	case r.Op == protocol.OpInspect:
		return protocol.Answer{State: authority.State{Name: name, Held: held, Grant: g.Grant}}
	case !held || g.Grant != r.Grant.Grant:
		return protocol.Answer{Err: &authority.NotHeldError{Grant: r.Grant.Grant, State: authority.State{Name: name}}}
	case r.Op == protocol.OpRelease:
		delete(l.held, name)
	}
	return protocol.Answer{Grant: g}
}

func newRig(t *testing.T, locking Locking) *rig {
	w := world.New(1)
	w.Log.Keep = true
	r := &rig{t: t, w: w, lock: &handLock{m: w.Machine("lock"), w: w, held: map[string]authority.Grant{}}}
	r.s = &Stage{World: w, Times: protocol.Times{Length: 10 * time.Second}.WithDefaults(), Lock: r.lock}
	r.table = NewTable(r.s, w.Machine("store"), store.NewTable(5, store.Off{}), 10)
	r.table.Locking = locking
	r.s.Store = r.table
	return r
}

// machine is one whose clock does not begin at zero, which means never.
func (r *rig) machine(name string) *world.Machine {
	m := r.w.Machine(name)
	m.Mono.Jump(time.Duration(len(r.w.Machines())) * 1000 * time.Second)
	return m
}

func (r *rig) worker(name string, cfg WorkerConfig) (*Worker, *world.Machine) {
	m := r.machine(name)
	cfg.Job = "job"
	if cfg.Pace == 0 {
		cfg.Pace = time.Second
	}
	return NewWorker(r.s, m, cfg), m
}

func (r *rig) at(d time.Duration, f func()) { r.w.At(d, world.OrderFault, f) }

func (r *rig) run(d time.Duration) { r.w.Run(d) }

// count is how many events of a kind somebody has; an empty name is anybody.
func (r *rig) count(who, what string) (n int) {
	for _, e := range r.w.Log.Events() {
		if (who == "" || e.Who == who) && e.What == what {
			n++
		}
	}
	return n
}

// last is the last event of a kind, or a zero one.
func (r *rig) last(who, what string) (last world.Event) {
	for _, e := range r.w.Log.Events() {
		if e.Who == who && e.What == what {
			last = e
		}
	}
	return last
}

// expect says what is in the log.
func (r *rig) expect(who, what string, n int) {
	r.t.Helper()
	if got := r.count(who, what); got != n {
		r.t.Errorf("%s %s %d times, not %d:\n%s", who, what, got, n, r.text())
	}
}

func (r *rig) text() string {
	var b []byte
	for _, e := range r.w.Log.Events() {
		b = append(e.AppendJSON(b), '\n')
	}
	return string(b)
}
