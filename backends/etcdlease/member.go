package etcdlease

import (
	"context"
	"fmt"
	"sync"

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

// pulse keeps one lease alive over one stream, with one request outstanding: the
// answers carry no request's number.
type pulse struct {
	mu     sync.Mutex // held over a request
	m      *member
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

type beat struct {
	ttl          int64 // seconds; zero when the lease is not there
	term, member uint64
}

// beat sends one keep-alive to m and returns its answer. The stream is kept for
// the next one: with users and passwords, each stream costs an authentication.
func (p *pulse) beat(ctx context.Context, base context.Context, m *member, id clientv3.LeaseID) (beat, error) {
	if m.remote == nil {
		ka, err := m.lease.KeepAliveOnce(ctx, id)
		if leaseGone(err) {
			return beat{}, nil
		}
		if err != nil {
			return beat{}, err
		}
		return beat{ka.TTL, ka.GetRaftTerm(), ka.GetMemberId()}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m != m || p.stream == nil {
		p.end()
		sctx, cancel := context.WithCancel(clientv3.WithRequireLeader(base))
		stop := context.AfterFunc(ctx, cancel)
		stream, err := m.remote.LeaseKeepAlive(sctx)
		if !stop() || err != nil {
			cancel()
			if err == nil {
				err = ctx.Err()
			}
			return beat{}, err
		}
		p.m, p.stream, p.cancel = m, stream, cancel
	}
	stop := context.AfterFunc(ctx, p.cancel)
	err := p.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	var ka *pb.LeaseKeepAliveResponse
	if ka2, err2 := p.stream.Recv(); err2 == nil {
		ka = ka2
	} else {
		err = err2 // says more than Send's
	}
	if !stop() || err != nil {
		p.end()
		if err == nil {
			err = ctx.Err()
		}
		return beat{}, err
	}
	return beat{ka.TTL, ka.Header.GetRaftTerm(), ka.Header.GetMemberId()}, nil
}

func (p *pulse) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

// end gives up the stream. p.mu is held.
func (p *pulse) end() {
	if p.stream != nil {
		p.cancel()
		p.m, p.stream, p.cancel = nil, nil, nil
	}
}
