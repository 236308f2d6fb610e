package grpcfault

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// DialOptions puts the layer into a client.
func (l *Layer) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(l.unary),
		grpc.WithChainStreamInterceptor(l.stream),
	}
}

// lateLimit bounds a request that is sent for nobody any more.
const lateLimit = 10 * time.Second

func short(method string) string { return strings.TrimPrefix(method, "/etcdserverpb.") }

func broken() error { return status.Error(codes.Unavailable, "grpcfault: the connection broke") }

// call is a plain request on its way.
type call struct {
	l      *Layer
	fault  Fault
	method string
	req    any
	reply  any
	cc     *grpc.ClientConn
	invoke grpc.UnaryInvoker
	opts   []grpc.CallOption
}

func (l *Layer) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	f, ok := l.request(short(method), req, false)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c := call{l, f, method, req, reply, cc, invoke, opts}
	switch f.Kind {
	case LoseRequest:
		return f.silence(ctx)
	case LoseAnswer:
		if err := c.send(ctx, fresh(reply)); err != nil {
			return err
		}
		return f.silence(ctx)
	case DelayRequest:
		return c.late(ctx)
	case DelayAnswer:
		err := c.send(ctx, reply)
		if !f.pause(ctx) {
			return status.FromContextError(ctx.Err()).Err()
		}
		return err
	case RepeatRequest, RetryRequest:
		return c.twice(ctx)
	case BeforeRequest:
		f.Do()
		return c.send(ctx, reply)
	case BeforeAnswer:
		err := c.send(ctx, reply)
		f.Do()
		return err
	default: // RepeatAnswer
		return c.send(ctx, reply)
	}
}

func (c call) send(ctx context.Context, reply any) error {
	return c.invoke(ctx, c.method, c.req, reply, c.cc, c.opts...)
}

// twice sends the request, and sends it again before the caller goes on.
func (c call) twice(ctx context.Context) error {
	other := fresh(c.reply)
	if c.fault.Kind == RepeatRequest {
		err := c.send(ctx, c.reply)
		_ = c.send(ctx, other) // for the server's eyes only
		return err
	}
	_ = c.send(ctx, other) // its answer is lost
	return c.send(ctx, c.reply)
}

// late sends the request after the delay, whether or not somebody still waits.
func (c call) late(ctx context.Context) error {
	type answer struct {
		reply any
		err   error
	}
	came := make(chan answer, 1)
	c.l.count(1)
	go func() {
		defer c.l.count(-1)
		c.fault.pause(context.Background())
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateLimit)
		defer cancel()
		reply := fresh(c.reply)
		err := c.send(free, reply)
		came <- answer{reply, err}
	}()
	select {
	case a := <-came:
		if a.err == nil {
			proto.Merge(c.reply.(proto.Message), a.reply.(proto.Message))
		}
		return a.err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// silence is how a caller learns of a message that was lost.
func (f Fault) silence(ctx context.Context) error {
	if f.Broken {
		return broken()
	}
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// fresh makes an empty message of the same type.
func fresh(m any) any { return m.(proto.Message).ProtoReflect().New().Interface() }

// pause waits for as long as the fault delays, or returns false when ctx ends
// before.
func (f Fault) pause(ctx context.Context) bool {
	var over <-chan time.Time
	if f.Until == nil {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
		return true
	case <-f.Until:
		return true
	case <-ctx.Done():
		return false
	}
}
