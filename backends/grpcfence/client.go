package grpcfence

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/fence/httpfence"
)

// The keys of the two metadata entries. Their values are those of the HTTP header
// fields of the same names.
const (
	MetadataToken = "fencing-token" // the grant string
	MetadataName  = "fencing-name"  // the lease's name, as httpfence.EncodeName writes it
)

// Holder is whose token is sent: a *stint.Lease, or httpfence.Claim of a grant
// that was handed over.
type Holder = httpfence.Holder

type holderKey struct{}

// WithHolder makes the calls of this context carry the holder's token and name,
// where the connection has the interceptors. A call after the stop time is not
// sent; one that is under way is cut off then, and whether the server carried it
// out is unknown.
func WithHolder(ctx context.Context, h Holder) context.Context {
	return context.WithValue(ctx, holderKey{}, h)
}

// under prepares a call: end lets go of the lease's context.
func under(ctx context.Context, method string) (stamped context.Context, h Holder, end func(), err error) {
	h, _ = ctx.Value(holderKey{}).(Holder)
	if h == nil {
		return ctx, nil, func() {}, nil // the server says what is missing
	}
	if err := h.Err(); err != nil {
		return nil, nil, nil, fmt.Errorf("grpcfence: %s was not sent: the lease is over: %w", method, err)
	}
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	md.Set(MetadataToken, h.Grant().String())
	md.Set(MetadataName, httpfence.EncodeName(h.Name()))
	call, cancel := context.WithCancelCause(metadata.NewOutgoingContext(ctx, md))
	over := context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })
	return call, h, func() {
		over()
		cancel(context.Canceled)
	}, nil
}

// cutOff says what it means that the lease ended under a call.
func cutOff(parent context.Context, h Holder, method string, err error) error {
	if h == nil || status.Code(err) != codes.Canceled || parent.Err() != nil || h.Context().Err() == nil {
		return err
	}
	return fmt.Errorf("grpcfence: %s was cut off because the lease is over; whether it was carried out is unknown: %w (%w)",
		method, context.Cause(h.Context()), err)
}

// UnaryClient is a grpc.UnaryClientInterceptor that stamps calls with the token of
// WithHolder.
func UnaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	call, h, end, err := under(ctx, method)
	if err != nil {
		return err
	}
	defer end()
	return cutOff(ctx, h, method, invoke(call, method, req, reply, cc, opts...))
}

// StreamClient is a grpc.StreamClientInterceptor that stamps streams with the token
// of WithHolder. After the stop time no message is sent.
func StreamClient(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	call, h, end, err := under(ctx, method)
	if err != nil {
		return nil, err
	}
	s, err := open(call, desc, cc, method, opts...)
	if err != nil {
		end()
		return nil, cutOff(ctx, h, method, err)
	}
	if h == nil {
		return s, nil
	}
	context.AfterFunc(call, end) // a caller may let go of a stream by ending its context
	return &clientStream{ClientStream: s, parent: ctx, holder: h, method: method, one: !desc.ServerStreams, end: end}, nil
}

type clientStream struct {
	grpc.ClientStream
	parent context.Context
	holder Holder
	method string
	one    bool // the server answers with one message
	end    func()
}

func (s *clientStream) SendMsg(m any) error {
	if err := s.holder.Err(); err != nil {
		s.end()
		return fmt.Errorf("grpcfence: a message of %s was not sent: the lease is over: %w", s.method, err)
	}
	err := s.ClientStream.SendMsg(m)
	if err != nil && err != io.EOF { // after EOF, RecvMsg says why
		err = cutOff(s.parent, s.holder, s.method, err)
		s.end()
	}
	return err
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && err != io.EOF {
		err = cutOff(s.parent, s.holder, s.method, err)
	}
	if err != nil || s.one {
		s.end()
	}
	return err
}
