package etcdlease

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
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
	// Further tries of the same name by this client: they share the outcome.
	riders []*op

	unsure bool // an answer was lost: it may have been carried out
	look   bool // a try that was refused: this time it asks by whom

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
// operations inside too.
const maxBatch = 96

// refused is why a try was not granted.
type refused struct {
	first spot
	count int64 // places in line
}

// enqueue hands an op to the next Txn. a.mu is held.
func (a *Authority) enqueue(o *op) *op {
	o.done = make(chan struct{})
	o.p.op = o
	a.queue = append(a.queue, o)
	a.launch()
	return o
}

// launch sees to it that what is queued is sent. a.mu is held.
func (a *Authority) launch() {
	if a.crowded != nil && len(a.queue) >= a.crowd {
		close(a.crowded)
		a.crowded = nil
	}
	if !a.flying && a.ctx.Err() == nil {
		a.flying = true
		a.group.Go(a.fly)
	}
}

// fly sends Txns as long as there is something to send.
func (a *Authority) fly() {
	full := time.NewTimer(time.Hour)
	defer full.Stop()
	for {
		a.mu.Lock()
		batch := a.take()
		if len(batch) == 0 || a.ctx.Err() != nil {
			a.flying = false
			for _, o := range append(batch, a.queue...) {
				a.finish(o, errClosed())
			}
			a.queue = nil
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
// come, and after a part of the time that the Txn took.
func (a *Authority) linger(answered int, took time.Duration, timer *time.Timer) {
	runtime.Gosched()
	if answered < worthwhile {
		return
	}
	a.mu.Lock()
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

// take chooses the ops of the next Txn: deletes first, so that a create in the
// same Txn counts only who stays; at most one create of a name, since all keys
// that a Txn creates have the same revision. While etcd is full, deletes go by
// themselves: with a create among them they would be refused. a.mu is held.
func (a *Authority) take() []*op {
	var removes, others, left []*op
	created := map[string]*op{}
	for _, o := range a.queue {
		switch {
		case o.kind.creates() && o.p.unwanted && !o.unsure:
			a.finish(o, context.Canceled) // nobody waits for it any more, and it was not sent
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
	riders := o.riders
	o.riders = nil
	for _, r := range riders {
		a.share(o, r)
	}
}

// step is what an op asks of etcd.
type step struct {
	ifs             []clientv3.Cmp
	then, otherwise []clientv3.Op
}

// step returns what is asked for an op; that its guard stands comes on top. Among
// many, it asks for no more than what most of them need: what is not there costs
// nothing on any member. a.mu is held.
func (a *Authority) step(o *op, alone bool) step {
	p := o.p
	switch o.kind {
	case opTry, opJoin:
		line := p.key[:strings.LastIndexByte(p.key, '/')+1]
		oldest := func(n int64) clientv3.Op {
			return clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithLimit(n), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		}
		put := clientv3.OpPut(p.key, o.value, clientv3.WithLease(p.s.id))
		if o.kind == opTry {
			empty := clientv3.Compare(clientv3.CreateRevision(line), "=", 0).WithPrefix()
			if !alone && !o.look && p.waiter != "" {
				return step{ifs: []clientv3.Cmp{empty}, then: []clientv3.Op{put}}
			}
			return step{[]clientv3.Cmp{empty}, []clientv3.Op{put}, []clientv3.Op{oldest(2)}}
		}
		absent := clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0)
		return step{[]clientv3.Cmp{absent}, []clientv3.Op{put, oldest(1)}, []clientv3.Op{clientv3.OpGet(p.key)}}
	}
	unchanged := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(p.key), "=", p.token)}
	if o.kind == opRemove {
		return step{ifs: unchanged, then: []clientv3.Op{clientv3.OpDelete(p.key)}}
	}
	now := []clientv3.Op{clientv3.OpGet(p.key, clientv3.WithKeysOnly())}
	if o.kind == opRetake {
		again := clientv3.OpPut(p.key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
		floor := clientv3.OpPut(a.keys.floor(p.name), "taken anew by "+p.nonce)
		return step{unchanged, []clientv3.Op{again, floor}, now}
	}
	// opExpire: a guard that has changed is not to be tried again.
	unchanged = append(unchanged, clientv3.Compare(clientv3.ModRevision(p.s.guard), "=", p.s.g))
	now = append(now, clientv3.OpGet(p.s.guard, clientv3.WithKeysOnly()))
	return step{unchanged, []clientv3.Op{clientv3.OpDelete(p.key)}, now}
}

// request builds one Txn. That the guards stand on which its ops rely is compared
// once for all of them; where one does not, nothing is done and all guards are
// read. An op that comes alone is not wrapped. a.mu is held.
func (a *Authority) request(batch []*op, guards []*session) (ifs []clientv3.Cmp, then, otherwise []clientv3.Op) {
	for _, s := range guards {
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(s.guard), "=", s.g))
	}
	if len(batch) == 1 {
		one := a.step(batch[0], true)
		ifs, then, otherwise = append(ifs, one.ifs...), one.then, one.otherwise
	} else {
		then = make([]clientv3.Op, len(batch))
		for i, o := range batch {
			one := a.step(o, false)
			then[i] = clientv3.OpTxn(one.ifs, one.then, one.otherwise)
		}
	}
	for _, s := range guards {
		otherwise = append(otherwise, clientv3.OpGet(s.guard, clientv3.WithKeysOnly()))
	}
	return ifs, then, otherwise
}

// send carries out one Txn, and finds out what became of it when its answer is
// lost.
func (a *Authority) send(batch []*op) {
	m := a.net.current()
	m.wake()
	ctx, cancel := context.WithTimeout(a.ctx, a.o.Timeout)
	defer cancel()
	guards := sessionsOf(batch)
	a.mu.Lock()
	ifs, then, otherwise := a.request(batch, guards)
	a.mu.Unlock()
	resp, err := m.kv.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...).Commit()
	switch {
	case err == nil:
		a.net.note(resp.Header.GetRaftTerm())
		a.apply(batch, guards, (*pb.TxnResponse)(resp))
	case definite(err) && !answered(err):
		a.fail(batch, err)
	default:
		if !answered(err) {
			a.net.suspect(m)
		}
		a.settle(batch, err)
	}
}

// answered reports whether the error is a server's answer to a request that is
// over: it was carried out or not, and will not be later.
func answered(err error) bool { return is(err, rpctypes.ErrNoSpace) }

// apply takes the answer to a Txn.
func (a *Authority) apply(batch []*op, guards []*session, resp *pb.TxnResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = max(a.seen, resp.Header.GetRevision())
	a.full = a.full && len(guards) == 0
	u := outcome{yes: resp.Succeeded, answers: resp.Responses, revision: resp.Header.GetRevision(), now: a.clock.Now()}
	var lost map[*session]bool // their guard has gone, and with it all places
	if !u.yes && len(guards) > 0 {
		n := len(u.answers) - len(guards)
		lost = a.readGuards(guards, u.answers[n:])
		u.answers = u.answers[:n]
	}
	for i, o := range batch {
		switch {
		case lost[o.p.s]:
			a.lose(o)
		case len(batch) == 1:
			a.conclude(o, u)
		case !u.yes: // a guard had changed: nothing was done
			a.again(o)
		default:
			inner := resp.Responses[i].GetResponseTxn()
			a.conclude(o, outcome{inner.Succeeded, inner.Responses, u.revision, u.now})
		}
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
