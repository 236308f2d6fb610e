package etcdlease

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/stint-dev/stint/authority"
)

// outcome is what etcd did with one op.
type outcome struct {
	yes      bool
	answers  []*pb.ResponseOp
	revision int64
	now      authority.Instant
}

func (u outcome) get(i int) *pb.RangeResponse {
	if i < len(u.answers) {
		if r := u.answers[i].GetResponseRange(); r != nil {
			return r
		}
	}
	return &pb.RangeResponse{}
}

// conclude takes etcd's answer to one op. a.mu is held.
func (a *Authority) conclude(o *op, u outcome) {
	p := o.p
	switch {
	case o.kind.removes():
		a.concludeRemove(o, u)
	case u.yes && o.kind == opRetake:
		p.token = u.revision
		a.finish(o, nil)
	case u.yes:
		count, first := int64(0), spot{}
		if o.kind == opJoin {
			r := u.get(1)
			count = r.Count - 1 // itself
			if len(r.Kvs) > 0 {
				first, _ = readSpot(r.Kvs[0])
			}
		}
		a.made(o, u.revision, u.revision, count, u.now)
		if count > 0 {
			o.refused = &refused{first, count}
		}
	case o.kind == opTry && len(u.get(0).Kvs) > 0:
		a.concludeRefusal(o, u.get(0))
	case o.kind != opTry && len(u.get(0).Kvs) > 0:
		a.concludeOther(o, u.get(0).Kvs[0])
	case o.kind == opRetake:
		a.finish(o, nil)
		a.drop(p)
	default: // only the guard had changed, or who was there left in the same Txn
		o.look = true
		a.again(o)
	}
}

// again sends an op once more, unless its session has ended meanwhile. a.mu is
// held.
func (a *Authority) again(o *op) {
	if o.p.s.over && !o.kind.removes() {
		a.finish(o, errSessionOver)
		a.drop(o.p)
		return
	}
	a.queue = append(a.queue, o)
}

// lose ends an op whose session's guard has gone. a.mu is held.
func (a *Authority) lose(o *op) {
	if o.kind.removes() {
		a.removed(o, false)
		return
	}
	a.finish(o, errSessionOver)
	a.drop(o.p)
}

// made notes that a place is there. a.mu is held.
func (a *Authority) made(o *op, created, token, ahead int64, now authority.Instant) {
	p := o.p
	p.created, p.token, p.phase = created, token, inLine
	p.proven, p.from = p.s.alive, p.s.alive
	if p.queuing != nil {
		p.ahead, p.asOf, p.heard = int(ahead), created, now
		a.joined(p)
	}
	a.finish(o, nil)
	if p.unwanted {
		a.remove(p, opRemove)
	}
}

// madeUncounted notes that a place is there, and has its line read to learn who
// is ahead. a.mu is held.
func (a *Authority) madeUncounted(o *op, created, token int64) {
	o.p.uncounted = true
	a.made(o, created, token, 1, a.clock.Now())
	a.resyncSoon(o.p.name)
}

func (a *Authority) concludeRefusal(o *op, line *pb.RangeResponse) {
	first, err := readSpot(line.Kvs[0])
	if err == nil {
		err = twins(o.p.name, line.Kvs)
	}
	switch {
	case first.key == o.p.key && first.lease == int64(o.p.s.id) && first.Nonce == o.p.nonce: // carried out before
		a.made(o, first.created, first.mod, 0, a.clock.Now())
		return
	case first.key == o.p.key && first.lease == int64(o.p.s.id):
		o.p.s.haunt(o.p.key, first.mod)
		a.finish(o, errSessionOver)
	case err != nil:
		a.finish(o, err)
	default:
		o.refused = &refused{first, line.Count}
		a.finish(o, nil)
	}
	a.drop(o.p)
}

// concludeOther: the place is there although it should not be, or has changed.
func (a *Authority) concludeOther(o *op, kv *mvccpb.KeyValue) {
	p := o.p
	switch {
	case kv.Lease != int64(p.s.id): // somebody took it over
		a.finish(o, errSessionOver)
		a.drop(p)
	case o.kind == opJoin && nonceOf(kv) != p.nonce:
		p.s.haunt(p.key, kv.ModRevision)
		a.finish(o, errSessionOver)
		a.drop(p)
	case o.kind == opJoin: // carried out before
		a.madeUncounted(o, kv.CreateRevision, kv.ModRevision)
	case kv.ModRevision != p.token: // a retake that was carried out before
		p.token = kv.ModRevision
		a.finish(o, nil)
	default:
		a.again(o)
	}
}

func (a *Authority) concludeRemove(o *op, u outcome) {
	p := o.p
	if o.kind == opExpire && !u.yes {
		a.guardStands(p.s, u.get(1))
	}
	kvs := u.get(0).Kvs
	if !u.yes && len(kvs) > 0 && kvs[0].ModRevision == p.token {
		// Somebody has acted in this client's name: renewed it, perhaps.
		p.phase = held
		a.finish(o, errRenewedElsewhere)
		return
	}
	if u.yes && o.next != nil {
		a.tellNext(o, u)
	}
	a.removed(o, u.yes)
}

// removed ends a delete: by its own doing, or because the place was not there
// any more. a.mu is held.
func (a *Authority) removed(o *op, own bool) {
	var err error
	switch {
	case !own && !o.unsure:
		err = errEndedBefore
	case o.kind == opRemove:
		a.released.add(past{o.p.name, o.p.grant().Grant})
	}
	a.drop(o.p)
	a.finish(o, err)
}

// guardStands takes what a Txn read of a session's guard key, and reports
// whether the session lives. a.mu is held.
func (a *Authority) guardStands(s *session, r *pb.RangeResponse) bool {
	if len(r.Kvs) == 0 {
		s.end(errLeaseGone)
		return false
	}
	if g := r.Kvs[0].ModRevision; g != s.g {
		s.g = g
		s.touched = a.clock.Now()
	}
	return !s.over
}

// share gives the outcome of a try to another one of its name, as if that had
// come right after it. a.mu is held.
func (a *Authority) share(o, r *op) {
	first := o.refused
	switch {
	case o.err != nil:
		a.queue = append(a.queue, r)
		return
	case first == nil: // granted
		s, err := readSpot(&mvccpb.KeyValue{Key: []byte(o.p.key), Value: []byte(o.value), CreateRevision: o.p.created, ModRevision: o.p.token, Lease: int64(o.p.s.id)})
		if err != nil {
			a.queue = append(a.queue, r)
			return
		}
		first = &refused{s, 1}
	}
	r.refused = first
	a.drop(r.p)
	a.finish(r, nil)
}
