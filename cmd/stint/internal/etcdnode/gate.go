package etcdnode

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate stands before every request from outside. It lets nobody in before users
// are set up, where users are asked for, and ends the long streams (watches,
// keep-alives) when the node stops: etcd would wait for them.
type gate struct {
	open    atomic.Pointer[func() bool] // nil: the node is starting
	stopped context.Context
	stop    context.CancelFunc
}

func newGate() *gate {
	g := &gate{}
	g.stopped, g.stop = context.WithCancel(context.Background())
	return g
}

func (g *gate) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.unary), grpc.ChainStreamInterceptor(g.stream)}
}

// Clients try again by themselves what was Unavailable.
var (
	errStarting = status.Error(codes.Unavailable, "stint serve: this node is starting")
	errNoUsers  = status.Error(codes.FailedPrecondition, "stint serve: users are not set up, and this address can be reached from other hosts")
	errStopping = status.Error(codes.Unavailable, "stint serve: this node is stopping")
)

func (g *gate) check() error {
	switch open := g.open.Load(); {
	case open == nil:
		return errStarting
	case !(*open)():
		return errNoUsers
	case g.stopped.Err() != nil:
		return errStopping
	}
	return nil
}

func (g *gate) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (g *gate) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	defer context.AfterFunc(g.stopped, cancel)()
	return next(srv, endable{s, ctx})
}

// endable is a stream that ends with its context.
type endable struct {
	grpc.ServerStream
	ctx context.Context
}

func (s endable) Context() context.Context { return s.ctx }
