package etcdtests

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// What a fault means, where an authority sends others of the method by itself:
// each renewal of its shared lease, for one, is a Txn that reads.

// deletes are requests that delete a key with part in its name.
func deletes(part string) func(any) bool {
	return steps(func(op *pb.RequestOp) bool {
		return strings.Contains(string(op.GetRequestDeleteRange().GetKey()), part)
	})
}

// puts are requests that write a key with part in its name.
func puts(part string) func(any) bool {
	return steps(func(op *pb.RequestOp) bool { return strings.Contains(string(op.GetRequestPut().GetKey()), part) })
}

// steps are Txns with such a step, also in a Txn inside.
func steps(is func(*pb.RequestOp) bool) func(any) bool {
	var among func([]*pb.RequestOp) bool
	among = func(ops []*pb.RequestOp) bool {
		for _, op := range ops {
			if is(op) || among(op.GetRequestTxn().GetSuccess()) {
				return true
			}
		}
		return false
	}
	return func(m any) bool {
		r, ok := m.(*pb.TxnRequest)
		return ok && among(r.Success)
	}
}

// news are answers of a watch that tell of something, and are no sign of life.
func news(m any) bool {
	r, ok := m.(*pb.WatchResponse)
	return ok && len(r.Events) > 0
}
