package redis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/world"
)

// RedlockConfig is a Redlock's settings.
type RedlockConfig struct {
	Masters int           // 5 if zero
	Prefix  string        // of the machines' names; "n" if empty
	Timeout time.Duration // how long a client waits for one master; 50 ms if zero
	Persist bool          // every write is synced before it is answered
}

// Redlock is a lock on a majority of independent masters. It gives out no token:
// there is nothing that only grows in it.
type Redlock struct {
	w       *world.World
	cfg     RedlockConfig
	masters []*server
}

// NewRedlock makes the machines of the masters.
func NewRedlock(w *world.World, cfg RedlockConfig) *Redlock {
	if cfg.Masters == 0 {
		cfg.Masters = 5
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "n"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 50 * time.Millisecond
	}
	r := &Redlock{w: w, cfg: cfg}
	for i := range cfg.Masters {
		r.masters = append(r.masters, newServer(w.Machine(fmt.Sprintf("%s%d", cfg.Prefix, i+1)), cfg.Persist))
	}
	return r
}

// Machines are the masters, in order.
func (r *Redlock) Machines() []*world.Machine {
	var all []*world.Machine
	for _, s := range r.masters {
		all = append(all, s.m)
	}
	return all
}

// Holds lists the masters, from 1, that keep a name for a value now.
func (r *Redlock) Holds(name, value string) []int {
	var held []int
	for i, s := range r.masters {
		if st := s.state(name); s.m.Up() && st.Held && st.Grant.Nonce == value {
			held = append(held, i+1)
		}
	}
	return held
}

// Result is the end of an Acquire.
type Result struct {
	Held     bool
	Got      []int         // masters, from 1, that have said yes
	Validity time.Duration // of the lock, from now: its length minus the time that acquiring took
}

// Acquire asks the masters of a list (all, if it is empty) in parallel, by the
// documented steps: read the time, SET NX PX everywhere with a short timeout;
// held with a majority of all masters in less time than the length; else release
// everywhere, even where it seemed to fail. The time is the client's monotonic
// clock. done is called once.
func (r *Redlock) Acquire(from *world.Machine, name, value string, length time.Duration, masters []int, done func(Result)) {
	if len(masters) == 0 {
		for i := range r.masters {
			masters = append(masters, i+1)
		}
	}
	a := &attempt{r: r, from: from, name: name, value: value, length: length, left: len(masters), done: done}
	start := from.Mono.Now()
	a.elapsed = func() time.Duration { return from.Mono.Now().Sub(start) }
	a.alarm = from.Mono.After(r.cfg.Timeout, a.end)
	for _, i := range masters {
		answered := false
		one := func(yes bool) {
			if !answered {
				answered = true
				a.answer(i, yes)
			}
		}
		s := r.masters[i-1]
		reach(from, s.m, func(answer func(func())) {
			yes := s.setNX(name, value, from.Name, length)
			s.saved(func() { answer(func() { one(yes) }) })
		}, func() { one(false) })
	}
}

func (s *server) setNX(name, value, holder string, length time.Duration) bool {
	if e := s.get(name); e != nil {
		s.log(world.Event{What: "set-refused", Name: name, Peer: holder, Why: "held by " + e.holder})
		return false
	}
	s.set(entry{name: name, value: fence.Grant{Nonce: value}, holder: holder, length: length})
	s.log(world.Event{What: "key-created", Name: name, Peer: holder, Deadline: s.m.Wall.When(s.get(name).expires)})
	return true
}

// Release deletes a name on every master that keeps it for the value.
func (r *Redlock) Release(from *world.Machine, name, value string) {
	for _, s := range r.masters {
		reach(from, s.m, func(func(func())) {
			if e := s.get(name); e != nil && e.value.Nonce == value {
				s.drop(name)
				s.log(world.Event{What: "key-deleted", Name: name, Peer: from.Name, Why: "released"})
				s.saved(func() {})
			}
		}, func() {})
	}
}

// attempt is an Acquire under way.
type attempt struct {
	r           *Redlock
	from        *world.Machine
	name, value string
	length      time.Duration
	elapsed     func() time.Duration
	left        int
	got         []int
	alarm       *world.Alarm
	over        bool
	done        func(Result)
}

func (a *attempt) answer(master int, yes bool) {
	if a.over {
		return
	}
	a.left--
	if yes {
		a.got = append(a.got, master)
		slices.Sort(a.got)
	}
	if a.left == 0 {
		a.end()
	}
}

// end is when all have answered, or the time for it is over.
func (a *attempt) end() {
	a.over = true
	a.alarm.Stop()
	took := a.elapsed()
	res := Result{Got: a.got, Validity: a.length - took}
	res.Held = len(a.got) > len(a.r.masters)/2 && took < a.length
	if !res.Held {
		a.r.Release(a.from, a.name, a.value)
		res.Validity = 0
	}
	e := world.Event{Who: a.from.Name, What: "redlock-held", Name: a.name, Count: len(a.got), Why: "of the masters " + strings.Trim(strings.ReplaceAll(fmt.Sprint(a.got), " ", ", "), "[]")}
	if res.Held {
		e.Until = a.r.w.Now() + res.Validity
	} else {
		e.What = "redlock-failed"
	}
	a.r.w.Log.Add(e)
	a.done(res)
}
