package etcdlease

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// member is one way to a server: a connection to one endpoint, or the in-process
// client of an embedded server.
type member struct {
	endpoint string
	conn     *grpc.ClientConn // nil in process
	kv       clientv3.KV
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
	remote, maintenance := pb.NewLeaseClient(conn), pb.NewMaintenanceClient(conn)
	return &member{
		endpoint: endpoint, conn: conn, remote: remote,
		kv:      clientv3.NewKVFromKVClient(pb.NewKVClient(conn), client),
		lease:   clientv3.NewLeaseFromLeaseClient(remote, client, 0),
		watcher: clientv3.NewWatchFromWatchClient(pb.NewWatchClient(conn), client),
		status: func(ctx context.Context) (*pb.StatusResponse, error) {
			return maintenance.Status(ctx, &pb.StatusRequest{})
		},
	}, nil
}

// inProcess is the client of a server in this process.
func inProcess(client *clientv3.Client) *member {
	return &member{
		endpoint: "in this process", kv: client.KV, lease: client.Lease, watcher: client.Watcher,
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
