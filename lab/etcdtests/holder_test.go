package etcdtests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const holderEnv = "STINT_LAB_TEST_HOLDER"

// orders are what a holder's process is told.
type orders struct {
	Endpoints []string
	Prefix    string
	Names     []string
}

// beatLine is what it says of a request that makes the lease longer: that it is
// about to be sent, or that it was answered.
type beatLine struct {
	Name string
	At   authority.Instant // when it was sent
	Sent bool              // not answered yet
	Held bool              // no request: the name is held now
}

// holdUntilKilled is the process that TestACrashedHoldersNameIsFree… kills: it
// holds each name in a session of its own.
func holdUntilKilled() {
	raw := os.Getenv(holderEnv)
	if raw == "" {
		return
	}
	var o orders
	err := json.Unmarshal([]byte(raw), &o)
	for _, name := range o.Names {
		if err == nil {
			err = holdOne(o, name)
		}
		// Out of step with each other, so that they are killed at all moments.
		time.Sleep(83 * time.Millisecond)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func holdOne(o orders, name string) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if !strings.HasSuffix(method, "/LeaseGrant") {
					return invoke(ctx, method, req, reply, cc, opts...)
				}
				return tellOf(name, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				s, err := open(ctx, desc, cc, method, opts...)
				if err == nil && strings.HasSuffix(method, "/LeaseKeepAlive") {
					s = &tellingStream{ClientStream: s, name: name}
				}
				return s, err
			}),
		},
	})
	if err != nil {
		return err
	}
	a, err := etcdlease.New(client, etcdlease.Options{Prefix: o.Prefix})
	if err != nil {
		return err
	}
	c, err := stint.New(a, stint.Options{TTL: crashLength, Wait: 30 * time.Second})
	if err != nil {
		return err
	}
	if _, err = c.Acquire(context.Background(), name); err == nil {
		tell(beatLine{Name: name, Held: true})
	}
	return err
}

// tellingStream tells of keep-alives, one of which is under way at a time.
type tellingStream struct {
	grpc.ClientStream
	name string
	sent atomic.Int64 // an Instant: one goroutine sends, another receives
}

func (s *tellingStream) SendMsg(m any) error {
	at := now()
	s.sent.Store(int64(at))
	tell(beatLine{Name: s.name, At: at, Sent: true})
	return s.ClientStream.SendMsg(m)
}

func (s *tellingStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.LeaseKeepAliveResponse); err == nil && ok && r.TTL > 0 {
		tell(beatLine{Name: s.name, At: authority.Instant(s.sent.Load())})
	}
	return err
}

func tellOf(name string, f func() error) error {
	sent := now()
	tell(beatLine{Name: name, At: sent, Sent: true})
	err := f()
	if err == nil {
		tell(beatLine{Name: name, At: sent})
	}
	return err
}

var say sync.Mutex

func tell(b beatLine) {
	say.Lock()
	defer say.Unlock()
	if json.NewEncoder(os.Stdout).Encode(b) != nil {
		os.Exit(1) // whoever listened is gone
	}
}

// holder starts a process that holds the names; what it says ends with it.
func (w *world) holder(names []string, complaint io.Writer) (*exec.Cmd, <-chan beatLine, error) {
	raw, err := json.Marshal(orders{Endpoints: w.cluster.Endpoints(), Prefix: w.prefix, Names: names})
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+string(raw))
	cmd.Stderr = complaint
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	said := make(chan beatLine)
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var b beatLine
			if json.Unmarshal(lines.Bytes(), &b) == nil {
				said <- b
			}
		}
	}()
	return cmd, said, nil
}
