// Package redis is what a lock on a cache stands on: one server that keeps keys
// with an expiry by its wall clock, a primary with an asynchronous replica
// (Cache), and five masters that know nothing of each other (Redlock).
//
// It follows the documentation of Redis: SET key value NX PX milliseconds, a
// release that deletes the key only while it holds the value, INCR for a token,
// expiry by the server's wall clock, replication that the client does not wait
// for.
package redis

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/world"
)

// entry is a key with its value, the way that it is kept.
type entry struct {
	name    string
	value   fence.Grant // the token stands in it for people's eyes; Redlock has none
	holder  string
	length  time.Duration
	expires authority.Instant // by the wall clock of whoever looks
}

// data is what a server keeps.
type data struct {
	keys    []entry
	counter int64 // the key that INCR counts in
}

func (d data) clone() data { return data{slices.Clone(d.keys), d.counter} }

// server is one process.
type server struct {
	m       *world.Machine
	mem     data
	disk    data
	persist bool // every write is synced before it is answered
	alarm   *world.Alarm
}

func newServer(m *world.Machine, persist bool) *server {
	s := &server{m: m, persist: persist}
	m.OnCrash(func() { s.mem, s.alarm = data{}, nil })
	m.OnStart(func() {
		s.mem = s.disk.clone()
		s.watch()
	})
	return s
}

// get returns the living entry of a name.
func (s *server) get(name string) *entry {
	s.expire()
	for i := range s.mem.keys {
		if s.mem.keys[i].name == name {
			return &s.mem.keys[i]
		}
	}
	return nil
}

// set stores an entry. It lasts length from now, by this server's wall clock.
func (s *server) set(e entry) {
	e.expires = s.m.Wall.Now().Add(e.length)
	s.put(e)
}

// put stores an entry with the expiry that it has.
func (s *server) put(e entry) {
	s.drop(e.name)
	s.mem.keys = append(s.mem.keys, e)
	s.watch()
}

func (s *server) drop(name string) {
	s.mem.keys = slices.DeleteFunc(s.mem.keys, func(e entry) bool { return e.name == name })
}

// saved does f when what was changed is as durable as this server makes it.
func (s *server) saved(f func()) {
	if !s.persist {
		f()
		return
	}
	now := s.mem.clone()
	s.m.Disk.Write(func() { s.disk = now })
	s.m.Disk.Sync(f)
}

// expire lets go of what has passed its time, by the wall clock: the server has
// no other for this.
func (s *server) expire() {
	now := s.m.Wall.Now()
	s.mem.keys = slices.DeleteFunc(s.mem.keys, func(e entry) bool {
		if e.expires > now {
			return false
		}
		s.log(world.Event{What: "key-deleted", Name: e.name, Token: uint64(e.value.Token), Clock: time.Duration(now), Why: "expired by the wall clock"})
		return true
	})
}

// watch wakes the server for the next expiry. An alarm of the wall clock goes
// off at once when somebody sets that clock past it.
func (s *server) watch() {
	s.alarm.Stop()
	s.alarm = nil
	if len(s.mem.keys) == 0 {
		return
	}
	next := slices.MinFunc(s.mem.keys, func(a, b entry) int { return int(min(max(a.expires-b.expires, -1), 1)) })
	s.alarm = s.m.Wall.Alarm(next.expires, world.OrderTimer, func() {
		s.expire()
		s.watch()
	})
}

func (s *server) state(name string) authority.State {
	e := s.get(name)
	if e == nil {
		return authority.State{Name: name}
	}
	return authority.State{
		Name: name, Held: true, Grant: e.value, Holder: e.holder, Length: e.length,
		Left: e.expires.Sub(s.m.Wall.Now()),
	}
}

func (s *server) log(e world.Event) {
	e.Who = s.m.Name
	s.m.World().Log.Add(e)
}

// reach carries a request to a server, and says when the connection is refused
// because its process is down. Silence means lost.
func reach(from, to *world.Machine, request func(answer func(func())), refused func()) {
	net := from.World().Net
	if !to.Up() && net.Connected(from, to) && net.Connected(to, from) {
		from.Deliver(world.OrderMessage, refused)
		return
	}
	net.Call(from, to, request)
}
