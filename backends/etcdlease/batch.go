package etcdlease

import (
	"context"
	"fmt"
	"runtime"

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
	if !a.flying && a.ctx.Err() == nil {
		a.flying = true
		a.group.Go(a.fly)
	}
	return o
}

// fly sends Txns as long as there is something to send.
func (a *Authority) fly() {
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
		a.send(batch)
		// Those who were answered may have more to ask: one Txn for all of them is
		// worth more than the moment that it begins earlier.
		runtime.Gosched()
	}
}

// take chooses the ops of the next Txn: deletes first, so that a create in the
// same Txn counts only who stays; at most one create of a name, since all keys
// that a Txn creates have the same revision. a.mu is held.
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

// txn is what an op asks of etcd.
func (a *Authority) txn(o *op) (ifs []clientv3.Cmp, then, otherwise []clientv3.Op) {
	p, line, guard := o.p, a.keys.line(o.p.name), o.p.s.guard
	guarded := clientv3.Compare(clientv3.ModRevision(guard), "=", p.s.g)
	unchanged := clientv3.Compare(clientv3.ModRevision(p.key), "=", p.token)
	readGuard := clientv3.OpGet(guard, clientv3.WithKeysOnly())
	first := clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	put := clientv3.OpPut(p.key, o.value, clientv3.WithLease(p.s.id))
	switch o.kind {
	case opTry:
		empty := clientv3.Compare(clientv3.CreateRevision(line), "=", 0).WithPrefix()
		return []clientv3.Cmp{guarded, empty}, []clientv3.Op{put}, []clientv3.Op{readGuard, first}
	case opJoin:
		absent := clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0)
		return []clientv3.Cmp{guarded, absent}, []clientv3.Op{put, first}, []clientv3.Op{readGuard, clientv3.OpGet(p.key)}
	case opRetake:
		again := clientv3.OpPut(p.key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
		floor := clientv3.OpPut(a.keys.floor(p.name), "taken anew by "+p.nonce)
		return []clientv3.Cmp{guarded, unchanged}, []clientv3.Op{again, floor}, []clientv3.Op{readGuard, clientv3.OpGet(p.key)}
	case opExpire:
		return []clientv3.Cmp{guarded, unchanged}, []clientv3.Op{clientv3.OpDelete(p.key)}, []clientv3.Op{readGuard, clientv3.OpGet(p.key, clientv3.WithKeysOnly())}
	}
	return []clientv3.Cmp{unchanged}, []clientv3.Op{clientv3.OpDelete(p.key)}, []clientv3.Op{clientv3.OpGet(p.key, clientv3.WithKeysOnly())}
}

// send carries out one Txn, and finds out what became of it when its answer is
// lost.
func (a *Authority) send(batch []*op) {
	m := a.net.current()
	m.wake()
	ctx, cancel := context.WithTimeout(a.ctx, a.o.Timeout)
	defer cancel()
	a.mu.Lock()
	var txn clientv3.Txn
	if len(batch) == 1 {
		ifs, then, otherwise := a.txn(batch[0])
		txn = m.kv.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...)
	} else {
		all := make([]clientv3.Op, len(batch))
		for i, o := range batch {
			all[i] = clientv3.OpTxn(a.txn(o))
		}
		txn = m.kv.Txn(ctx).Then(all...)
	}
	a.mu.Unlock()
	resp, err := txn.Commit()
	switch {
	case err == nil:
		a.net.note(resp.Header.GetRaftTerm())
		a.apply(batch, (*pb.TxnResponse)(resp))
	case definite(err):
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

func (a *Authority) apply(batch []*op, resp *pb.TxnResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = max(a.seen, resp.Header.GetRevision())
	for i, o := range batch {
		u := outcome{resp.Succeeded, resp.Responses, resp.Header.GetRevision()}
		if len(batch) > 1 {
			inner := resp.Responses[i].GetResponseTxn()
			u.yes, u.answers = inner.Succeeded, inner.Responses
		}
		a.conclude(o, u)
	}
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
