package etcdlease

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The hot requests are made of etcd's own messages: its client would copy each
// comparison by reflection.

// request builds one Txn. That the guards stand on which its ops rely is compared
// once for all of them; where one does not, nothing is done and all guards are
// read. An op that comes alone is not wrapped. a.mu is held.
func (a *Authority) request(batch []*op, guards []*session) *pb.TxnRequest {
	var r *pb.TxnRequest
	if len(batch) == 1 {
		r = a.step(batch[0], true)
	} else {
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
	return r
}

// step returns what is asked for an op; that its guard stands comes on top. Among
// many, it asks for no more than what most of them need: what is not there costs
// nothing on any member. a.mu is held.
func (a *Authority) step(o *op, alone bool) *pb.TxnRequest {
	p, key := o.p, []byte(o.p.key)
	switch o.kind {
	case opTry:
		line := key[:strings.LastIndexByte(p.key, '/')+1]
		r := &pb.TxnRequest{
			Compare: []*pb.Compare{absent(line, afterLine(line))},
			Success: []*pb.RequestOp{putting(key, o.value, p.s.id)},
		}
		if alone || o.look || p.waiter == "" {
			r.Failure = []*pb.RequestOp{oldest(line, 2)}
		}
		return r
	case opJoin:
		line := key[:strings.LastIndexByte(p.key, '/')+1]
		return &pb.TxnRequest{
			Compare: []*pb.Compare{absent(key, nil)},
			Success: []*pb.RequestOp{putting(key, o.value, p.s.id), oldest(line, 1)},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
		}
	}
	r := &pb.TxnRequest{Compare: []*pb.Compare{unchangedSince(key, p.token)}}
	switch o.kind {
	case opRetake:
		r.Success = []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, IgnoreValue: true, IgnoreLease: true}}},
			putting([]byte(a.keys.floor(p.name)), "taken anew by "+p.nonce, 0),
		}
		r.Failure = []*pb.RequestOp{reading(key)}
		return r
	case opExpire: // a guard that has changed is not to be tried again
		guard := []byte(p.s.guard)
		r.Compare = append(r.Compare, unchangedSince(guard, p.s.g))
		r.Failure = []*pb.RequestOp{reading(key), reading(guard)}
	}
	r.Success = []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}}
	return r
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
