package etcdlease

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// txnOf carries out the messages of request.go through a client whose connection
// cannot be reached: that of a server in this process.
func txnOf(kv clientv3.KV) func(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	return func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		resp, err := kv.Txn(ctx).If(comparisons(r.Compare)...).Then(operations(r.Success)...).Else(operations(r.Failure)...).Commit()
		return (*pb.TxnResponse)(resp), err
	}
}

func comparisons(all []*pb.Compare) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(all))
	for i, c := range all {
		cmps[i] = clientv3.FromCompare(c)
	}
	return cmps
}

func operations(all []*pb.RequestOp) []clientv3.Op {
	ops := make([]clientv3.Op, len(all))
	for i, o := range all {
		switch r := o.Request.(type) {
		case *pb.RequestOp_RequestTxn:
			t := r.RequestTxn
			ops[i] = clientv3.OpTxn(comparisons(t.Compare), operations(t.Success), operations(t.Failure))
		case *pb.RequestOp_RequestPut:
			ops[i] = putOf(r.RequestPut)
		case *pb.RequestOp_RequestDeleteRange:
			ops[i] = clientv3.OpDelete(string(r.RequestDeleteRange.Key))
		case *pb.RequestOp_RequestRange:
			ops[i] = getOf(r.RequestRange)
		}
	}
	return ops
}

func putOf(p *pb.PutRequest) clientv3.Op {
	if p.IgnoreValue {
		return clientv3.OpPut(string(p.Key), "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
	}
	return clientv3.OpPut(string(p.Key), string(p.Value), clientv3.WithLease(clientv3.LeaseID(p.Lease)))
}

func getOf(g *pb.RangeRequest) clientv3.Op {
	var opts []clientv3.OpOption
	if len(g.RangeEnd) > 0 {
		opts = append(opts, clientv3.WithRange(string(g.RangeEnd)), clientv3.WithLimit(g.Limit), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	}
	if g.KeysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	return clientv3.OpGet(string(g.Key), opts...)
}
