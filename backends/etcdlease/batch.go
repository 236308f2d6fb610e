package etcdlease

import (
	"context"
	"fmt"
	"runtime"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// op is one step of one place, carried out in a Txn together with those of
// others. One Txn is under way at a time; what comes meanwhile goes with the
// next. That is several times as fast as a request each, and it makes the order
// of a client's own requests plain.
type op struct {
	kind  opKind
	p     *place
	value string // of a new place
	done  chan struct{}
	told  func() // called when done has been closed; nil: nobody but those who wait for that
	// Further tries of the same name by this client: they share the outcome.
	riders []*op

	unsure bool   // an answer was lost: it may have been carried out
	look   bool   // a try that was refused: this time it asks by whom
	left   bool   // its caller has gone while it was sent: it is not sent again by itself
	next   *place // of a delete: see nextOf

	// The outcome, read after done is closed.
	err     error // not done
	refused *refused
}

type opKind uint8

const (
	opTry    opKind = iota // create, if nobody is in line
	opJoin                 // create behind those who are
	opRetake               // take a later token, as the first in line
	opRemove               // delete
	opExpire               // delete, unless somebody has acted in the client's name
)

func (k opKind) creates() bool { return k == opTry || k == opJoin }
func (k opKind) removes() bool { return k == opRemove || k == opExpire }

// maxBatch operations of a Txn; etcd takes 128, and counts those of the
// operations inside too. Fewer leave some of a crowd for the next Txn: it is on its
// way while those that were answered ask for more, so that servers and clients
// need not wait for each other. Sixty-four who acquire and release in a row are a
// fifth faster so than with all of them in one Txn.
const maxBatch = 56

// refused is why a try was not granted.
type refused struct {
	first spot
	count int64 // places in line
}

// enqueue hands an op to the next Txn. a.mu is held.
func (a *Authority) enqueue(o *op) *op {
	a.board(o)
	a.launch()
	return o
}

func (a *Authority) board(o *op) {
	o.done = make(chan struct{})
	o.p.op = o
	a.queue = append(a.queue, o)
}

// launch sees to it that what is queued is sent. a.mu is held.
func (a *Authority) launch() {
	if a.crowded != nil && len(a.queue) >= a.crowd {
		close(a.crowded)
		a.crowded = nil
	}
	if !a.flying && a.ctx.Err() == nil {
		a.flying = true
		a.takeOff()
	}
}

// takeOff lets the pilot send what is queued: one goroutine, from the first time
// until Close, whose stack has grown to what a request needs. a.mu is held, and
// a.flying is the caller's to hand on.
func (a *Authority) takeOff() {
	switch {
	case a.ctx.Err() != nil: // the pilot has gone, or is about to
		a.group.Go(func() { a.fly(nil) })
		return
	case a.runway == nil:
		a.runway = make(chan struct{}, 1)
		a.group.Go(a.patrol)
	}
	a.runway <- struct{}{} // there is room: nobody else is flying
}

func (a *Authority) patrol() {
	full := time.NewTimer(time.Hour)
	defer full.Stop()
	for a.ctx.Err() == nil {
		select {
		case <-a.runway:
		case <-a.ctx.Done(): // what is queued is ended
		}
		a.fly(full)
	}
}

// fly sends Txns as long as there is something to send.
func (a *Authority) fly(full *time.Timer) {
	for {
		a.mu.Lock()
		batch := a.take()
		if len(batch) == 0 || a.ctx.Err() != nil {
			a.flying = false
			for a.queue = append(batch, a.queue...); len(a.queue) > 0; { // riders of what ends are added
				o := a.queue[0]
				a.queue = a.queue[1:]
				a.finish(o, errClosed())
			}
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		begun := a.clock.Now()
		a.send(batch)
		a.linger(len(batch), a.clock.Now().Sub(begun), full)
	}
}

// linger gives those who were answered a moment to ask for more: one Txn for all
// costs the servers less than two. It ends when as many as were answered have
// come, and after a part of the time that the Txn took. Where enough wait already,
// these are sent, and the others go with the next.
func (a *Authority) linger(answered int, took time.Duration, timer *time.Timer) {
	runtime.Gosched()
	if answered < worthwhile {
		return
	}
	a.mu.Lock()
	if len(a.queue) >= enough {
		a.mu.Unlock()
		return
	}
	a.crowd = min(len(a.queue)+answered*3/4, maxBatch)
	a.crowded = make(chan struct{})
	full := a.crowded
	a.mu.Unlock()
	timer.Reset(min(took/4, time.Millisecond))
	select {
	case <-full:
	case <-timer.C:
	}
}

// worthwhile is how many must have been answered at once for a wait for the next
// ones.
const worthwhile = 8

// enough wait for a Txn of their own.
const enough = 16

// take chooses the ops of the next Txn: deletes first, so that a create in the
// same Txn counts only who stays; at most one create of a name, since all keys
// that a Txn creates have the same revision. While etcd is full, deletes go by
// themselves: with a create among them they would be refused. a.mu is held.
func (a *Authority) take() []*op {
	var removes, others, left []*op
	created := map[string]*op{}
	for len(a.queue) > 0 {
		o := a.queue[0]
		a.queue = a.queue[1:]
		switch {
		case o.kind.creates() && o.p.unwanted && !o.unsure:
			a.finish(o, context.Canceled) // nobody waits for it any more, and it was not sent; its riders queue
			a.drop(o.p)
		case o.kind == opTry && created[o.p.name] != nil && created[o.p.name].kind == opTry:
			first := created[o.p.name]
			first.riders = append(first.riders, o)
		case o.kind.creates() && created[o.p.name] != nil, len(removes)+len(others) >= maxBatch:
			left = append(left, o)
		case o.kind.removes():
			removes = append(removes, o)
		default:
			if o.kind.creates() {
				created[o.p.name] = o
			}
			others = append(others, o)
		}
	}
	if a.full && len(removes) > 0 {
		a.queue = append(others, left...)
		return removes
	}
	a.queue = left
	return append(removes, others...)
}

// finish ends an op. a.mu is held.
func (a *Authority) finish(o *op, err error) {
	o.err = err
	if o.p.op == o {
		o.p.op = nil
	}
	if o.kind == opJoin {
		a.arrived(o.p.name)
	}
	close(o.done)
	switch {
	case o.told == nil:
	case a.landing > 0:
		a.tell = append(a.tell, o.told)
	default:
		a.group.Go(o.told)
	}
	riders := o.riders
	o.riders = nil
	for _, r := range riders {
		a.share(o, r)
	}
}

// errand is one Txn that was sent.
type errand struct {
	batch  []*op
	guards []*session // on which it relies
	bold   bool       // all of it or nothing
	m      *member
	resp   *pb.TxnResponse
	err    error
}

// send carries out one Txn, and finds out what became of it when its answer is
// lost.
func (a *Authority) send(batch []*op) {
	ctx, cancel := context.WithTimeout(a.ctx, a.o.Timeout)
	defer cancel()
	f := a.transmit(ctx, batch)
	a.land(f, true)
}

func (a *Authority) transmit(ctx context.Context, batch []*op) errand {
	f := errand{batch: batch, guards: sessionsOf(batch), m: a.net.current()}
	f.m.wake()
	a.mu.Lock()
	var r *pb.TxnRequest
	r, f.bold = a.request(batch, f.guards)
	a.mu.Unlock()
	f.resp, f.err = f.m.txn(ctx, r)
	return f
}

// land takes what became of a Txn, and tells those who were only called back for
// it. late tells whether an answer that is missing is the member's fault.
func (a *Authority) land(f errand, late bool) {
	a.mu.Lock()
	a.landing++
	a.mu.Unlock()
	a.takeIn(f, late)
	a.mu.Lock()
	a.landing--
	told := a.tell
	a.tell = nil
	a.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

func (a *Authority) takeIn(f errand, late bool) {
	switch {
	case f.err == nil:
		a.net.note(f.resp.Header.GetRaftTerm())
		a.apply(f)
	case definite(f.err) && !answered(f.err):
		a.fail(f.batch, f.err)
	default:
		if !answered(f.err) && late {
			a.net.suspect(f.m)
		}
		a.settle(f.batch, f.err)
	}
}

// answered reports whether the error is a server's answer to a request that is
// over: it was carried out or not, and will not be later.
func answered(err error) bool { return is(err, rpctypes.ErrNoSpace) }

// apply takes the answer to a Txn.
func (a *Authority) apply(f errand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resp := f.resp
	u := outcome{yes: resp.Succeeded, answers: resp.Responses, revision: resp.Header.GetRevision(), now: a.clock.Now()}
	a.seen = max(a.seen, u.revision)
	a.full = a.full && len(f.guards) == 0
	var lost map[*session]bool // their guard has gone, and with it all places
	if !u.yes && len(f.guards) > 0 {
		n := len(u.answers) - len(f.guards)
		lost = a.readGuards(f.guards, u.answers[n:])
		u.answers = u.answers[:n]
	}
	if f.bold && !u.yes {
		a.caution = cautious
	}
	failed := false
	for i, o := range f.batch {
		switch {
		case lost[o.p.s]:
			a.lose(o)
		case len(f.batch) == 1:
			a.conclude(o, u)
		case !u.yes: // nothing was done: a guard had changed, or one op of a bold Txn failed
			o.look = o.look || f.bold
			a.again(o)
		case f.bold:
			n := o.kind.steps()
			a.conclude(o, outcome{true, u.answers[:n], u.revision, u.now})
			u.answers = u.answers[n:]
		default:
			inner := resp.Responses[i].GetResponseTxn()
			failed = failed || !inner.Succeeded
			a.conclude(o, outcome{inner.Succeeded, inner.Responses, u.revision, u.now})
		}
	}
	switch {
	case failed:
		a.caution = cautious
	case !f.bold && len(f.batch) > 1 && u.yes && a.caution > 0:
		a.caution--
	}
}

// readGuards takes what a Txn read of guards, and returns whose has gone. a.mu is
// held.
func (a *Authority) readGuards(guards []*session, answers []*pb.ResponseOp) map[*session]bool {
	lost := map[*session]bool{}
	for i, s := range guards {
		r := answers[i].GetResponseRange()
		a.guardStands(s, r)
		lost[s] = len(r.GetKvs()) == 0
	}
	return lost
}

// fail ends ops that etcd has refused. What is to be removed is tried again by
// the session's loop.
func (a *Authority) fail(batch []*op, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range batch {
		a.finish(o, a.o.explain(err))
		if o.kind.creates() {
			a.drop(o.p)
		}
	}
}

func is(err, target error) bool {
	return err != nil && fmt.Sprint(rpctypes.Error(err)) == target.Error()
}
