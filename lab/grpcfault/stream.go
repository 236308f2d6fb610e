package grpcfault

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func (l *Layer) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	inner, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{ClientStream: inner, layer: l, method: short(method), cancel: cancel}, nil
}

// stream strikes single messages. Like any client stream, one goroutine may send
// while another receives.
type stream struct {
	grpc.ClientStream
	layer  *Layer
	method string
	cancel context.CancelFunc

	mu     sync.Mutex
	broke  bool
	repeat proto.Message // to be delivered once more
}

// SendMsg sends a request, unless it is struck.
func (s *stream) SendMsg(m any) error {
	f, ok := s.layer.request(s.method, m, true)
	if !ok {
		return s.ClientStream.SendMsg(m)
	}
	switch f.Kind {
	case LoseRequest:
		if f.Broken {
			s.breakNow()
		}
		return nil // as a write into a connection whose other end is gone
	case DelayRequest:
		if !f.pause(s.Context()) {
			return status.FromContextError(s.Context().Err()).Err()
		}
	case RepeatRequest, RetryRequest:
		if err := s.ClientStream.SendMsg(m); err != nil {
			return err
		}
	case BeforeRequest:
		f.Do()
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg receives an answer; a lost one is passed over.
func (s *stream) RecvMsg(m any) error {
	if again := s.once(); again != nil {
		proto.Merge(m.(proto.Message), again)
		return nil
	}
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil {
			return s.reason(err)
		}
		f, ok := s.layer.answer(s.method, m)
		if !ok {
			return nil
		}
		switch f.Kind {
		case LoseAnswer:
			if f.Broken {
				s.breakNow()
			}
			proto.Reset(m.(proto.Message))
			continue
		case DelayAnswer:
			if !f.pause(s.Context()) {
				return status.FromContextError(s.Context().Err()).Err()
			}
		case RepeatAnswer:
			s.mu.Lock()
			s.repeat = proto.Clone(m.(proto.Message))
			s.mu.Unlock()
		case BeforeAnswer:
			f.Do()
		}
		return nil
	}
}

func (s *stream) once() proto.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.repeat
	s.repeat = nil
	return m
}

func (s *stream) breakNow() {
	s.mu.Lock()
	s.broke = true
	s.mu.Unlock()
	s.cancel()
}

// reason is what the receiver is told: of the broken connection, not of how it
// was broken.
func (s *stream) reason(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broke {
		return broken()
	}
	s.cancel()
	return err
}
