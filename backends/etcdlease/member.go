package etcdlease

import (
	"context"
	"fmt"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// member is one way to a server: a connection to one endpoint, or the in-process
// client of an embedded server.
type member struct {
	endpoint string
	conn     *grpc.ClientConn // nil in process
	kv       clientv3.KV
	txn      func(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error)
	lease    clientv3.Lease
	watcher  clientv3.Watcher
	remote   pb.LeaseClient // nil in process
	status   func(context.Context) (*pb.StatusResponse, error)
}

func dial(client *clientv3.Client, endpoint string) (*member, error) {
	conn, err := client.Dial(endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	way := impatient{conn}
	remote, maintenance, kv := pb.NewLeaseClient(way), pb.NewMaintenanceClient(way), pb.NewKVClient(way)
	return &member{
		endpoint: endpoint, conn: conn, remote: remote,
		kv: clientv3.NewKVFromKVClient(kv, client),
		txn: func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
			resp, err := kv.Txn(ctx, r, grpc.MaxCallRecvMsgSize(math.MaxInt32))
			return resp, clientv3.ContextError(ctx, err)
		},
		lease:   clientv3.NewLeaseFromLeaseClient(remote, client, 0),
		watcher: clientv3.NewWatchFromWatchClient(pb.NewWatchClient(watching{way}), client),
		status: func(ctx context.Context) (*pb.StatusResponse, error) {
			return maintenance.Status(ctx, &pb.StatusRequest{})
		},
	}, nil
}

// inProcess is the client of a server in this process.
func inProcess(client *clientv3.Client) *member {
	return &member{
		endpoint: "in this process", kv: client.KV, txn: txnOf(client.KV), lease: client.Lease, watcher: client.Watcher,
		status: func(ctx context.Context) (*pb.StatusResponse, error) {
			st, err := client.Maintenance.Status(ctx, "")
			return (*pb.StatusResponse)(st), err
		},
	}
}

// wake lets a connection that failed be tried again now, and not when gRPC's
// pause is over, which grows to minutes.
func (m *member) wake() {
	if m.conn != nil && m.conn.GetState() == connectivity.TransientFailure {
		m.conn.ResetConnectBackoff()
	}
}

func (m *member) close() {
	if m.conn == nil {
		return // the client is its owner's
	}
	m.watcher.Close()
	m.lease.Close()
	m.conn.Close()
}

// impatient lets requests fail at once while a connection cannot be made. etcd's
// client waits for it instead, although another member may be there.
type impatient struct{ conn *grpc.ClientConn }

func (i impatient) Invoke(ctx context.Context, method string, request, reply any, o ...grpc.CallOption) error {
	return i.conn.Invoke(ctx, method, request, reply, append(o[:len(o):len(o)], grpc.WaitForReady(false))...)
}

func (i impatient) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	return i.conn.NewStream(ctx, desc, method, append(o[:len(o):len(o)], grpc.WaitForReady(false))...)
}

// watching ends a watch that cannot be opened, or not again. etcd's client would
// ask the same member for it until it comes back.
type watching struct{ impatient }

func (w watching) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := w.impatient.NewStream(ctx, desc, method, o...)
	if status.Code(err) == codes.Unavailable {
		err = status.Error(codes.Aborted, err.Error())
	}
	return s, err
}
