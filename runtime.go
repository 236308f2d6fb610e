package stint

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/clock"
	"github.com/stint-dev/stint/internal/protocol"
)

// runtime drives the protocol machines of one client: one loop and one timer
// heap for all of them, whatever their number. Machines are touched by one
// goroutine at a time, the loop or one that drives; everybody else posts.
type runtime struct {
	authority authority.Authority
	queuer    authority.Queuer      // nil where the authority keeps no line
	bulk      authority.BulkRenewer // nil where it renews one by one
	starter   authority.Starter     // nil where each request needs a goroutine
	clock     clock.Clock
	alarm     clock.Alarm
	calls     calls
	begun     atomic.Int64 // requests of starter that are under way

	mu      sync.Mutex
	inbox   []posted
	spare   []posted // the inbox of the turn before, for its room
	closed  bool
	ended   bool // the loop has
	turning bool // a goroutine is about the loop's work: one at a time
	rung    bool // the loop itself wanted to be, meanwhile
	wake    chan struct{}
	done    chan struct{} // closed when the loop has ended

	// Owned by the loop: by whoever has set turning.
	live     map[*Lease]struct{}
	families families
	closing  bool // nothing new is begun
	timers   timers
	armed    authority.Instant
	reading  authority.Instant // see now
	steps    int               // that it has served
	abandon  bool              // end the loop although machines are live
	outbox   []job             // requests that leave at the end of the turn
	renewals []renewal         // the same, where many go as one
	early    []*Lease          // room for joinEarly
	out      *protocol.Out     // room for a step; nil while it is in use
	carrier  *Lease            // whose caller is turning, and may send its request: see await
	carried  *errand           // which is this one

	// settle, where a test sets it, waits until everything else has come to
	// rest: then what is due at one instant is all in the inbox, and Order
	// decides. trace is told of every step.
	settle func()
	trace  func(*Lease, authority.Instant, protocol.Event, []protocol.Effect)
}

// posted is an event on its way to a machine, or something for the loop to do.
type posted struct {
	at    authority.Instant
	lease *Lease
	event protocol.Event
	do    func()
	// The context of all these leases is done: each is told.
	family *family
}

func newRuntime(a authority.Authority, c clock.Clock) (*runtime, error) {
	alarm, err := c.NewAlarm()
	if err != nil {
		return nil, err
	}
	rt := &runtime{
		authority: a,
		clock:     c,
		alarm:     alarm,
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		live:      map[*Lease]struct{}{},
		families:  families{},
	}
	rt.queuer, _ = a.(authority.Queuer)
	rt.bulk, _ = a.(authority.BulkRenewer)
	rt.starter, _ = a.(authority.Starter)
	rt.calls.init()
	return rt, nil
}

// post hands an event to the loop. It reports false once the runtime is closed.
func (rt *runtime) post(p posted) bool {
	_, ok := rt.put(p, false, nil)
	return ok
}

// drive is post for those who wait for what comes of it, or hold nothing that a
// callback of the user's might want. Where requests are only begun, so that a
// turn waits for nothing, and none is under way, they take the turn themselves:
// that spares two changes between goroutines, which count for who does one thing
// after the other. Among many, the loop hears more in one turn.
func (rt *runtime) drive(p posted) bool {
	_, ok := rt.put(p, rt.alone(), nil)
	return ok
}

// alone reports whether nothing is under way where a turn waits for nothing.
func (rt *runtime) alone() bool {
	return rt.starter != nil && rt.settle == nil && rt.begun.Load() == 0
}

func (rt *runtime) put(p posted, mayTurn bool, carrier *Lease) (*errand, bool) {
	p.at = rt.clock.Now()
	rt.mu.Lock()
	if rt.ended || rt.closed && (p.event == protocol.Start{}) {
		rt.mu.Unlock()
		return nil, false
	}
	rt.inbox = append(rt.inbox, p)
	busy := rt.turning // then whoever is looks again
	rt.turning = busy || mayTurn
	rt.mu.Unlock()
	switch {
	case busy:
	case mayTurn:
		rt.carrier = carrier
		return rt.turns(turnsAside, false), true
	default:
		rt.ring()
	}
	return nil, true
}

// turnsAside bounds what a goroutine that posts does for others.
const turnsAside = 4

// turns is the loop's work: until there is nothing to hear, or so many turns,
// after which the loop goes on. Only who has set turning may call it. It returns
// the request that the caller is to send, if that is the carrier: then the rest is
// the loop's, too.
func (rt *runtime) turns(most int, byLoop bool) *errand {
	for n := 1; ; n++ {
		rt.turn()
		rt.mu.Lock()
		left := len(rt.inbox) > 0
		if left && n < most && rt.carried == nil {
			rt.mu.Unlock()
			continue
		}
		e := rt.carried
		rt.carrier, rt.carried = nil, nil
		rt.turning = false
		if left || !byLoop && (rt.rung || rt.closed) { // closed: is this the end?
			rt.ring()
		}
		rt.mu.Unlock()
		return e
	}
}

// ring wakes the loop.
func (rt *runtime) ring() {
	select {
	case rt.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

func (rt *runtime) loop() {
	defer close(rt.done)
	defer rt.alarm.Close()
	for !rt.finished() {
		select {
		case <-rt.wake:
		case <-rt.alarm.C():
		}
		if rt.settle != nil {
			rt.settle()
		}
		switch {
		case !rt.mine():
		case rt.settle != nil:
			rt.turns(1, true)
		default:
			rt.turns(math.MaxInt, true)
		}
	}
}

// mine lets the loop turn, unless somebody else is about it, who then rings when
// that is over: a timer may have to be looked at.
func (rt *runtime) mine() bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.rung = rt.turning
	if rt.turning {
		return false
	}
	rt.turning = true
	return true
}

func (rt *runtime) finished() bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.ended = rt.closed && !rt.turning && len(rt.inbox) == 0 && (rt.abandon || len(rt.live) == 0)
	return rt.ended
}

// turn steps every machine that has something to hear.
func (rt *runtime) turn() {
	rt.mu.Lock()
	batch := rt.inbox
	rt.inbox, rt.spare = rt.spare, nil
	rt.mu.Unlock()
	for _, p := range batch {
		if p.family != nil {
			batch = rt.families.end(p.family, batch, p.at)
		}
	}
	rt.steps = 0 // what was taken from the queue is judged by a time that was read after that
	for now, n := rt.now(), 0; n < ticksPerTurn && len(rt.timers) > 0 && rt.timers[0].at <= now; n++ {
		l := rt.timers[0].lease
		batch = append(batch, posted{at: l.at, lease: l, event: protocol.Tick{}})
		rt.arm(l, 0)
	}
	if !slices.IsSortedFunc(batch, inOrder) {
		slices.SortStableFunc(batch, inOrder)
	}
	for i := range batch {
		switch p := &batch[i]; {
		case p.do != nil:
			p.do()
		case p.lease != nil:
			rt.step(p.lease, p.event)
		}
	}
	clear(batch)
	rt.mu.Lock()
	rt.spare = batch[:0]
	rt.mu.Unlock()
	rt.gather()
	// Only now: what came in the same turn may have recalled them.
	for _, j := range rt.outbox {
		rt.calls.queue(j)
	}
	clear(rt.outbox)
	rt.outbox = rt.outbox[:0]
	rt.setAlarm()
}

// setAlarm sees to it that the alarm rings when the first timer's time comes. One
// that rings too early costs a turn without events, and less than setting it anew
// for every lease that comes and goes.
func (rt *runtime) setAlarm() {
	if len(rt.timers) == 0 {
		return
	}
	if at := rt.timers[0].at; at < rt.armed || rt.armed <= rt.reading {
		rt.armed = at
		rt.alarm.Set(at)
	}
}

func inOrder(a, b posted) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(protocol.Order(a.event), protocol.Order(b.event)))
}

// now is the time for the steps of a turn. It is read after their events were
// taken from the queue, where they may have waited over a pause of the process.
// One reading serves some steps, some tens of microseconds: an older one makes a
// request count from earlier, which is safe, and a lease that somebody has found
// over meanwhile stays over.
func (rt *runtime) now() authority.Instant {
	if rt.steps%stepsPerReading == 0 {
		rt.reading = rt.clock.Now()
	}
	rt.steps++
	return rt.reading
}

const stepsPerReading = 32

// ticksPerTurn bounds what is due at once, and with it a round and the room that
// the loop keeps. The alarm rings at once for the rest.
const ticksPerTurn = 1000

// close ends the waiting and the leases, and waits until each is given back, at
// most for a time.
func (rt *runtime) close(within time.Duration) ([]*Lease, error) {
	var all []*Lease
	asked := make(chan struct{})
	rt.post(posted{do: func() {
		rt.mu.Lock()
		rt.closed = true
		rt.mu.Unlock()
		rt.closing = true
		for l := range rt.live {
			all = append(all, l)
		}
		slices.SortFunc(all, func(a, b *Lease) int { return cmp.Compare(a.serial, b.serial) })
		for _, l := range all {
			if !l.granted {
				rt.step(l, protocol.Cancel{Cause: ErrClosed})
				continue
			}
			rt.step(l, protocol.Release{})
		}
		close(asked)
	}})
	select {
	case <-asked:
	case <-rt.done: // another Close was first, and the loop has ended
		rt.calls.end(within)
		return nil, nil
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-rt.done:
	case <-timeout.C:
		rt.post(posted{do: func() { rt.abandon = true }})
		<-rt.done
	}
	if !rt.calls.end(within) {
		return all, errors.New("stint: a request is still under way: the authority does not listen to its context")
	}
	return all, nil
}
