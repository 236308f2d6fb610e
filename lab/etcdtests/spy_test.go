package etcdtests

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// spy notes which member is asked what by one authority, and how many watches it
// has asked for.
type spy struct {
	auth *etcdlease.Authority

	mu      sync.Mutex
	asked   map[string]int // Txns and keep-alives, by the member's address
	watches int
}

func (w *world) spy() *spy {
	w.Helper()
	s := &spy{asked: map[string]int{}}
	cfg := w.cluster.ClientConfig(w.cluster.Endpoints())
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			var to peer.Peer
			err := invoke(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Peer(&to))...)
			if strings.HasSuffix(method, txn) {
				s.note(&to)
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return spied{stream, s}, nil
		}))
	etcd, err := clientv3.New(cfg)
	w.must(err)
	s.auth, err = etcdlease.New(etcd, etcdlease.Options{Prefix: w.prefix, OwnClient: true})
	w.must(err)
	w.Cleanup(func() { s.auth.Close() }) // again, where a test has closed it
	return s
}

func (s *spy) note(to *peer.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to != nil && to.Addr != nil {
		s.asked[to.Addr.String()]++
	}
}

// since is who was asked since the last time.
func (s *spy) since() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.asked)
	clear(s.asked)
	return all
}

func (s *spy) watched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// spied is a stream of keep-alives or of watches.
type spied struct {
	grpc.ClientStream
	s *spy
}

func (s spied) SendMsg(m any) error {
	switch r := m.(type) {
	case *pb.LeaseKeepAliveRequest:
		to, _ := peer.FromContext(s.Context())
		s.s.note(to)
	case *pb.WatchRequest:
		if r.GetCreateRequest() != nil {
			s.s.mu.Lock()
			s.s.watches++
			s.s.mu.Unlock()
		}
	}
	return s.ClientStream.SendMsg(m)
}

// TestRenewalsGoToTheLeaderAndFollowIt: whoever else is asked has to ask it.
func TestRenewalsGoToTheLeaderAndFollowIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, etcdcluster.Options{NoSync: true})
	s := w.spy()
	c, err := stint.New(s.auth, stint.Options{TTL: calm.TTL, Renew: 200 * time.Millisecond})
	w.must(err)
	t.Cleanup(func() { c.Close() })
	l, err := c.Acquire(t.Context(), "job")
	w.must(err)
	for range 2 {
		w.eventually("rounds of renewals go to the leader alone", func() bool {
			leader, err := w.cluster.Leader(w.long()) // on a busy machine one may be elected at any time
			w.must(err)
			address := w.cluster.Endpoints()[leader]
			s.since()
			from := l.Status().Stop
			w.eventually("rounds of renewals", func() bool {
				w.must(l.Err())
				return l.Status().Stop > from.Add(2*time.Second)
			})
			asked := s.since()
			return len(asked) == 1 && asked[address] >= 4 // a keep-alive and a read each
		})
		w.moveLeader()
	}
	w.must(l.Release(w.long()))
}

// TestOneWatchServesAllLines: however many names a client waits for, and however
// often.
func TestOneWatchServesAllLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	s, holder := w.spy(), w.party()
	waiter := &party{w: w, auth: s.auth}
	const names, times = 20, 3
	for range times {
		var held []granted
		var waiting []<-chan granted
		for i := range names {
			name := string(rune('a' + i))
			held = append(held, granted{Grant: holder.acquire(line(name, lasting))})
			waiting = append(waiting, waiter.stand(line(name, lasting)))
		}
		for i, h := range held {
			w.must(holder.auth.Release(w.long(), h.Grant))
			w.must(waiter.auth.Release(w.long(), w.next(waiting[i])))
		}
	}
	// One, and one more each time that a busy machine leaves it silent for too long.
	if n := s.watched(); n < 1 || n > 4 {
		t.Errorf("%d watches for %d lines", n, names*times)
	}
}
