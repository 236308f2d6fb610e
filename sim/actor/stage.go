// Package actor puts the protocol's machines on a simulated world: the worker
// that bills, candidates, sweepers, observers, writers. What they decide is
// decided by package protocol; an actor only carries its effects out and its
// events in, on the clocks and over the network of its machine.
package actor

import (
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// Stage is what actors stand on.
type Stage struct {
	World   *world.World
	Without protocol.Rules // rules that are left out
	Times   protocol.Times
	Lock    Lock
	Store   Resource
	// Weak says that the lock service may hand out a token twice, and that its
	// grant strings say so.
	Weak bool
}

// Request is one request to the lock service.
type Request struct {
	Op     protocol.Op
	Ask    authority.Request
	Grant  authority.Grant
	Prefix string // the election, of a candidate's requests
	Key    string // the heir's
}

// Lock is a lock service, as a holder's driver reaches it. The answer comes on
// the machine that asked, or never.
type Lock interface {
	Call(from *world.Machine, r Request, answer func(protocol.Answer))
}

// Watcher is a lock service that tells when a key is gone. woken is called on
// the machine that asked, once.
type Watcher interface {
	Watch(from *world.Machine, w protocol.Watch, woken func())
}

// Progress is what a resource tells a new holder: the row as the last one left
// it.
type Progress struct {
	State fence.State
	Owner fence.Token
	Fence fence.Token
	Seq   int64
	Next  int    // the first chunk that is missing; 0: none is
	ETag  string // where the resource compares those
}

// Write is a chunk on its way to the resource.
type Write struct {
	Name  string
	Grant fence.Grant
	Chunk int
	Mark  string // unique to the transaction
	Seq   int64
	ETag  string
}

// Resource is a store with a fence. Replies come on the machine that asked, or
// never.
type Resource interface {
	Read(from *world.Machine, name string, reply func(Progress))
	Raise(from *world.Machine, name string, g fence.Grant, reply func(Progress, error))
	Mark(from *world.Machine, name string, g fence.Grant, reply func(error))
	Write(from *world.Machine, w Write, reply func(Progress, error))
	Finish(from *world.Machine, name string, g fence.Grant, reply func(error))
}

// log adds an event of a machine.
func (s *Stage) log(m *world.Machine, e world.Event) world.Event {
	e.Who = m.Name
	return s.World.Log.Add(e)
}

// trueTime is when a clock shows a reading, if nobody changes it: for the log,
// which speaks of true time only.
func (s *Stage) trueTime(c *world.Clock, at authority.Instant) time.Duration {
	if at < c.Now() {
		return s.World.Now() - c.Now().Sub(at)
	}
	return c.When(at)
}

// wall is a machine's wall clock, for the log.
func wall(m *world.Machine) time.Duration { return time.Duration(m.Wall.Now()) }
