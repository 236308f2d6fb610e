package etcdtests

import (
	"context"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// short makes a server's clock run fast, as its client sees it: each lease is
// over at the server a second before the time that the server tells. etcd keeps
// whole seconds, so this is far more than the rate of any clock: 1 s of 5 s is a
// clock that runs 25 % fast.
type short struct{}

func (short) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(short{}.unary), grpc.WithChainStreamInterceptor(short{}.stream)}
}

func (short) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if r, ok := req.(*pb.LeaseGrantRequest); ok {
		req = &pb.LeaseGrantRequest{TTL: r.TTL - 1, ID: r.ID}
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	switch r := reply.(type) {
	case *pb.LeaseGrantResponse:
		r.TTL++
	case *pb.LeaseTimeToLiveResponse:
		if r.TTL > 0 {
			r.TTL++
			r.GrantedTTL++
		}
	}
	return err
}

func (short) stream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, d, cc, method, opts...)
	return shortStream{s}, err
}

type shortStream struct{ grpc.ClientStream }

func (s shortStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.LeaseKeepAliveResponse); ok && err == nil && r.TTL > 0 {
		r.TTL++
	}
	return err
}

// TestAServerWhoseClockRunsFastDoesNotOutrunTheStopTime: the holder is cut off in
// the middle of its renewals, and at the moment at which its rival learns that it
// has the lease, the holder has stopped.
func TestAServerWhoseClockRunsFastDoesNotOutrunTheStopTime(t *testing.T) {
	const holders, length = 12, 5 * time.Second
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	rival := all.party()
	var wg sync.WaitGroup
	for i := range holders {
		w := all
		door, err := w.cluster.Door()
		w.must(err)
		cfg := w.cluster.ClientConfig(door.Endpoints())
		cfg.DialOptions = append(cfg.DialOptions, short{}.options()...)
		etcd, err := clientv3.New(cfg)
		w.must(err)
		a, err := etcdlease.New(etcd, etcdlease.Options{Prefix: w.prefix, OwnClient: true})
		w.must(err)
		c, err := stint.New(a, stint.Options{TTL: length})
		w.must(err)
		t.Cleanup(func() {
			door.Each(func(l *etcdcluster.Link) { l.Open() }) // or Close waits for answers
			c.Close()
			a.Close()
		})
		name := "job" + string(rune('a'+i))
		l, err := c.Acquire(w.long(), name)
		w.must(err)
		next := rival.background(line(name, length))
		wg.Go(func() {
			// Cut off at different moments between two renewals.
			time.Sleep(time.Duration(i) * 150 * time.Millisecond)
			door.Each(func(l *etcdcluster.Link) { l.Cut() })
			g := <-next
			stopped := l.Err()
			switch {
			case g.err != nil:
				t.Errorf("%s: the rival was not granted: %v", name, g.err)
			case stopped == nil:
				t.Errorf("%s: the rival has token %d, and the holder of %d goes on for %v", name, g.Token, l.Token(), l.Status().Left)
			case g.Token <= l.Token():
				t.Errorf("%s: token %d after %d", name, g.Token, l.Token())
			}
		})
	}
	wg.Wait()
}
