package grpcfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

// Options sets up a server's interceptors. The zero value takes the name from the
// call.
type Options struct {
	// Name says which lease guards a call ("" for none: it goes on unfenced). The
	// token of another lease is refused. Without it the call's own word is taken.
	Name func(ctx context.Context, fullMethod string) string
	// OnceForAStream asks the fence only when a stream is opened. Without it, it is
	// asked again for each message that comes in, because a stream may live on long
	// after a later holder was admitted.
	OnceForAStream bool
	// Refused, if set, is called with every call that is refused and the whole
	// reason, for logs.
	Refused func(ctx context.Context, fullMethod string, why error)
}

// FromContext is the claim under which the call was admitted, for the fence beside
// the write. See gate.FromContext.
func FromContext(ctx context.Context) (fence.Claim, bool) { return gate.FromContext(ctx) }

// UnaryServer lets calls in that carry a token which the fence admits. Others are
// refused, and not run: see Refused.
func UnaryServer(g *gate.Gate, o Options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		pass, err := o.enter(ctx, g, info.FullMethod)
		switch {
		case err != nil:
			return nil, err
		case pass == nil:
			return handler(ctx, req)
		}
		defer pass.Leave()
		resp, err := handler(pass.Context(), req)
		return resp, o.told(ctx, pass, info.FullMethod, err)
	}
}

// StreamServer does the same for streams. Where the gate drains, a handler that
// waits for a message, or to send one, is woken with the refusal when a later
// holder comes; the message must not be used after that.
func StreamServer(g *gate.Gate, o Options) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := ss.Context()
		pass, err := o.enter(ctx, g, info.FullMethod)
		switch {
		case err != nil:
			return err
		case pass == nil:
			return handler(srv, ss)
		}
		defer pass.Leave()
		err = handler(srv, &serverStream{ServerStream: ss, pass: pass, o: o, method: info.FullMethod})
		return o.told(ctx, pass, info.FullMethod, err)
	}
}

func (o Options) enter(ctx context.Context, g *gate.Gate, method string) (*gate.Pass, error) {
	want := ""
	if o.Name != nil {
		if want = o.Name(ctx, method); want == "" {
			return nil, nil
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	name, grant, err := httpfence.ReadHeader(http.Header{
		httpfence.HeaderToken: md.Get(MetadataToken), httpfence.HeaderName: md.Get(MetadataName)})
	if err == nil && want != "" && name != want {
		err = fmt.Errorf("%w: it is of %q, and this call is guarded by %q", errName, name, want)
	}
	var pass *gate.Pass
	if err == nil {
		pass, err = g.Enter(ctx, name, grant)
	}
	if err != nil {
		return nil, o.refuse(ctx, method, err, false)
	}
	return pass, nil
}

// told replaces the error of a handler that a later holder has ended.
func (o Options) told(ctx context.Context, p *gate.Pass, method string, err error) error {
	stale := p.Overtaken()
	if err == nil || stale == nil {
		return err
	}
	return o.refuse(ctx, method, stale, true)
}

func (o Options) refuse(ctx context.Context, method string, why error, begun bool) error {
	if o.Refused != nil {
		o.Refused(ctx, method, why)
	}
	return refusal(ctx, why, begun)
}

// errName: the token is of another lease than the one that guards the call.
var errName = errors.New("the token is of another lease")

type serverStream struct {
	grpc.ServerStream
	pass   *gate.Pass
	o      Options
	method string
}

func (s *serverStream) Context() context.Context { return s.pass.Context() }

func (s *serverStream) RecvMsg(m any) error {
	if err := s.wait(func() error { return s.ServerStream.RecvMsg(m) }); err != nil || s.o.OnceForAStream {
		return err
	}
	err := s.pass.Check(s.pass.Context())
	switch {
	case err == nil:
		return nil
	case s.pass.Overtaken() != nil: // told when the handler has returned
		return refusal(s.ServerStream.Context(), err, true)
	}
	return s.o.refuse(s.ServerStream.Context(), s.method, err, true)
}

func (s *serverStream) SendMsg(m any) error {
	return s.wait(func() error { return s.ServerStream.SendMsg(m) })
}

// wait is over when the handler is told to end, which the stream itself does not
// hear of. What it left behind ends with the stream, when the handler has returned.
func (s *serverStream) wait(f func() error) error {
	if stale := s.pass.Overtaken(); stale != nil {
		return refusal(s.ServerStream.Context(), stale, true)
	}
	if !s.pass.Drains() {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.pass.Context().Done():
	}
	if stale := s.pass.Overtaken(); stale != nil {
		return refusal(s.ServerStream.Context(), stale, true)
	}
	return <-done // the stream has ended
}
