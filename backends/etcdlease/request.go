package etcdlease

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The hot requests are made of etcd's own messages: its client would copy each
// comparison by reflection.

// request builds one Txn, and says whether it is a bold one. That the guards
// stand on which its ops rely is compared once for all of them; where one does
// not, nothing is done and all guards are read. An op that comes alone is not
// wrapped. a.mu is held.
func (a *Authority) request(batch []*op, guards []*session) (r *pb.TxnRequest, bold bool) {
	switch {
	case len(batch) == 1:
		r = a.step(batch[0], true)
	case a.dares(batch, guards):
		r, bold = a.bold(batch, guards), true
	default:
		r = &pb.TxnRequest{Success: make([]*pb.RequestOp, len(batch))}
		for i, o := range batch {
			r.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: a.step(o, false)}}
		}
	}
	for _, s := range guards {
		guard := []byte(s.guard)
		r.Compare = append(r.Compare, unchangedSince(guard, s.g))
		r.Failure = append(r.Failure, reading(guard))
	}
	return r, bold
}

// A bold Txn counts on all its ops to be carried out, as nearly all are where
// each worker has a name of its own: it does all of them or nothing. Each member
// then reads, writes and applies about half of what an op with its own outcome
// costs. When one has failed, Txns are cautious for a while: their ops are Txns
// of their own inside.
const (
	worthBold = 8   // ops in a Txn: below, what it saves is not worth a second Txn
	mostBold  = 120 // comparisons or steps: etcd takes 128
	cautious  = 16  // Txns in which no op failed, after one that did
)

func (a *Authority) dares(batch []*op, guards []*session) bool {
	if a.caution > 0 || len(batch) < worthBold {
		return false
	}
	steps := 0
	for _, o := range batch {
		if o.kind == opExpire { // which demands more than the rest
			return false
		}
		steps += o.kind.steps()
	}
	return max(steps, len(batch)+len(guards)) <= mostBold
}

// steps is how many answers come of an op that was carried out.
func (k opKind) steps() int {
	if k == opJoin || k == opRetake {
		return 2
	}
	return 1
}

func (a *Authority) bold(batch []*op, guards []*session) *pb.TxnRequest {
	r := &pb.TxnRequest{
		Compare: make([]*pb.Compare, 0, len(batch)+len(guards)),
		Success: make([]*pb.RequestOp, 0, len(batch)),
	}
	for _, o := range batch {
		o.next = nil // the watch tells it: nothing is read here
		a.demand(r, o)
	}
	return r
}

// step returns what is asked for an op; that its guard stands comes on top. Among
// many, it asks for no more than what most of them need: what is not there costs
// nothing on any member. a.mu is held.
func (a *Authority) step(o *op, alone bool) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	a.demand(r, o)
	p, key := o.p, []byte(o.p.key)
	switch o.kind {
	case opTry:
		if alone || o.look || p.waiter == "" {
			r.Failure = []*pb.RequestOp{oldest(lineOf(key), 2)}
		}
	case opJoin:
		r.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}}
	case opRetake:
		r.Failure = []*pb.RequestOp{reading(key)}
	case opExpire: // a guard that has changed is not to be tried again
		guard := []byte(p.s.guard)
		r.Compare = append(r.Compare, unchangedSince(guard, p.s.g))
		r.Failure = []*pb.RequestOp{reading(key), reading(guard)}
	}
	if o.next = nil; o.kind.removes() {
		if o.next = a.nextOf(p); o.next != nil {
			r.Success = append(r.Success, reading([]byte(o.next.key)), reading([]byte(a.keys.floor(p.name))))
		}
	}
	return r
}

// demand adds what an op demands and what it does. a.mu is held.
func (a *Authority) demand(r *pb.TxnRequest, o *op) {
	p, key := o.p, []byte(o.p.key)
	switch o.kind {
	case opTry:
		line := lineOf(key)
		r.Compare = append(r.Compare, absent(line, afterLine(line)))
		r.Success = append(r.Success, putting(key, o.value, p.s.id))
	case opJoin:
		r.Compare = append(r.Compare, absent(key, nil))
		r.Success = append(r.Success, putting(key, o.value, p.s.id), oldest(lineOf(key), 1))
	case opRetake:
		r.Compare = append(r.Compare, unchangedSince(key, p.token))
		r.Success = append(r.Success,
			&pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, IgnoreValue: true, IgnoreLease: true}}},
			putting([]byte(a.keys.floor(p.name)), "taken anew by "+p.nonce, 0))
	default:
		r.Compare = append(r.Compare, unchangedSince(key, p.token))
		r.Success = append(r.Success,
			&pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}})
	}
}

// lineOf is the line that a place's key belongs to.
func lineOf(key []byte) []byte {
	n := bytes.LastIndexByte(key, '/') + 1
	return key[:n:n]
}

func unchangedSince(key []byte, revision int64) *pb.Compare {
	return &pb.Compare{Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
}

func absent(key, end []byte) *pb.Compare {
	return &pb.Compare{Key: key, RangeEnd: end, Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{}}
}

// afterLine ends the range of a line: what follows the slash that it ends with.
func afterLine(line []byte) []byte {
	end := append([]byte(nil), line...)
	end[len(end)-1]++
	return end
}

func putting(key []byte, value string, lease clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte(value), Lease: int64(lease)}}}
}

// reading asks when a key was made and changed.
func reading(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key, KeysOnly: true}}}
}

// oldest asks for the first n places of a line, and how many there are.
func oldest(line []byte, n int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: line, RangeEnd: afterLine(line), Limit: n, SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND}}}
}
