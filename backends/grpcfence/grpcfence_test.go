package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/backends/grpcfence"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	job      = "billing/2026-09 für alle, 100%"
	patience = 30 * time.Second
)

func grant(t fence.Token) fence.Grant { return fence.Grant{Token: t, Nonce: fmt.Sprintf("n%d", t)} }

// lease is a Holder that a test ends.
type lease struct {
	httpfence.Holder
	cancel context.CancelCauseFunc
}

func hold(t *testing.T, token fence.Token) *lease {
	ctx, cancel := context.WithCancelCause(t.Context())
	return &lease{httpfence.Claim(ctx, fence.Claim{Name: job, Grant: grant(token)}), cancel}
}

// service does what a test says.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(ctx context.Context) error
	stream func(s grpc.ServerStream, recv func() error) error
}

func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, s.unary(ctx)
}

func (s *service) FullDuplexCall(ss grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	return s.stream(ss, func() error {
		_, err := ss.Recv()
		return err
	})
}

func (s *service) StreamingInputCall(ss grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	for {
		if _, err := ss.Recv(); err == io.EOF {
			return ss.SendAndClose(&pb.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
	}
}

// serve runs the service on loopback until the test ends.
func serve(t *testing.T, f fence.Fence, g gate.Options, o grpcfence.Options, s *service) pb.TestServiceClient {
	t.Helper()
	door, err := gate.New(f, g)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcfence.UnaryServer(door, o)), grpc.ChainStreamInterceptor(grpcfence.StreamServer(door, o)))
	pb.RegisterTestServiceServer(server, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(grpcfence.UnaryClient), grpc.WithChainStreamInterceptor(grpcfence.StreamClient))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		running.Wait()
	})
	return pb.NewTestServiceClient(conn)
}

func call(ctx context.Context, c pb.TestServiceClient, l *lease) error {
	_, err := c.UnaryCall(grpcfence.WithHolder(ctx, l), &pb.SimpleRequest{})
	return err
}

func TestAStaleCallIsRefusedWithBothNumbers(t *testing.T) {
	var seen []fence.Claim
	c := serve(t, fence.NewMemory(), gate.Options{}, grpcfence.Options{}, &service{unary: func(ctx context.Context) error {
		claim, _ := grpcfence.FromContext(ctx)
		seen = append(seen, claim)
		return nil
	}})
	for _, token := range []fence.Token{7, 12, 12} {
		if err := call(t.Context(), c, hold(t, token)); err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	err := call(t.Context(), c, hold(t, 7))
	refused := grpcfence.Refused(err)
	var r *grpcfence.RefusedError
	if status.Code(err) != codes.FailedPrecondition || !errors.Is(refused, fence.ErrStale) || errors.Is(refused, fence.ErrUnknown) ||
		!errors.As(refused, &r) || r.Presented != 7 || r.Fence != 12 || r.Name != job {
		t.Errorf("7 after 12: %v", err)
	}
	if len(seen) != 3 || seen[2].Name != job || seen[2].Grant != grant(12) {
		t.Errorf("the handler was given %v", seen)
	}
}

type failing struct{ fence.Fence }

func (failing) Check(context.Context, fence.Claim) error {
	return fmt.Errorf("dial: secret: %w", context.DeadlineExceeded) // its own, as net's time-outs match it
}

func TestEveryRefusalHasItsCodeAndReason(t *testing.T) {
	m := fence.NewMemory()
	if _, err := m.Raise(t.Context(), "billing", grant(12)); err != nil {
		t.Fatal(err)
	}
	ran := false
	s := &service{unary: func(context.Context) error { ran = true; return nil }}
	told := 0
	o := grpcfence.Options{
		Name: func(_ context.Context, method string) string {
			return map[bool]string{true: "billing"}[strings.HasSuffix(method, "Call")]
		},
		Refused: func(context.Context, string, error) { told++ },
	}
	c := serve(t, m, gate.Options{CheckOnly: true}, o, s)
	down := serve(t, failing{m}, gate.Options{}, o, s)
	for _, x := range []struct {
		c           pb.TestServiceClient
		token, name string
		code        codes.Code
		reason      string
	}{
		{c, "", "", codes.InvalidArgument, grpcfence.ReasonMissing},
		{c, "12.n12", "", codes.InvalidArgument, grpcfence.ReasonMissing},
		{c, "12", "billing", codes.InvalidArgument, grpcfence.ReasonMalformed},
		{c, "weak-12.n12", "billing", codes.InvalidArgument, grpcfence.ReasonMalformed},
		{c, "12.n12", "report", codes.InvalidArgument, grpcfence.ReasonWrongName},
		{c, "7.n7", "billing", codes.FailedPrecondition, grpcfence.ReasonStale},
		{c, "12.other", "billing", codes.FailedPrecondition, grpcfence.ReasonRepeated},
		{c, "13.n13", "billing", codes.FailedPrecondition, grpcfence.ReasonNotRaised},
		{down, "12.n12", "billing", codes.Unavailable, grpcfence.ReasonUnavailable},
		{c, "12.n12", "billing", codes.OK, ""},
	} {
		ran = false
		before := told
		ctx := t.Context()
		for k, v := range map[string]string{grpcfence.MetadataToken: x.token, grpcfence.MetadataName: x.name} {
			if v != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, k, v)
			}
		}
		_, err := x.c.UnaryCall(ctx, &pb.SimpleRequest{})
		var r *grpcfence.RefusedError
		if status.Code(err) != x.code || ran != (err == nil) || (told > before) != (err != nil) || err != nil && (!errors.As(grpcfence.Refused(err), &r) || r.Reason != x.reason) {
			t.Errorf("%q %q: ran %v, %v", x.token, x.name, ran, err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "n12") && !strings.Contains(x.token, "n12")) {
			t.Errorf("too much is told: %v", err)
		}
	}
	if err := grpcfence.Refused(status.Error(codes.FailedPrecondition, "mine")); err != nil {
		t.Errorf("somebody else's error: %v", err)
	}
}

func TestNothingIsSentAfterTheStopTime(t *testing.T) {
	over := errors.New("the stop time has passed")
	in := make(chan struct{}, 1)
	c := serve(t, fence.NewMemory(), gate.Options{}, grpcfence.Options{}, &service{
		unary: func(ctx context.Context) error { in <- struct{}{}; <-ctx.Done(); return ctx.Err() },
		stream: func(_ grpc.ServerStream, recv func() error) error {
			for recv() == nil {
			}
			return nil
		},
	})
	l := hold(t, 12)
	go func() {
		<-in
		l.cancel(over)
	}()
	if err := call(t.Context(), c, l); !errors.Is(err, over) || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("a call under way: %v", err)
	}
	if err := call(t.Context(), c, l); !errors.Is(err, over) || !strings.Contains(err.Error(), "not sent") {
		t.Errorf("a call after it: %v", err)
	}
	l = hold(t, 12)
	s, err := c.FullDuplexCall(grpcfence.WithHolder(t.Context(), l))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
		t.Error(err)
	}
	l.cancel(over)
	if err := s.Send(&pb.StreamingOutputCallRequest{}); !errors.Is(err, over) {
		t.Errorf("a message after it: %v", err)
	}
	if _, err := s.Recv(); !errors.Is(err, over) {
		t.Errorf("the stream ends with %v", err)
	}
}

func TestAStreamIsAskedAgainForEachMessage(t *testing.T) {
	for once, want := range map[bool]error{false: fence.ErrStale, true: nil} {
		m := fence.NewMemory()
		got := make(chan error, 2)
		c := serve(t, m, gate.Options{}, grpcfence.Options{OnceForAStream: once}, &service{stream: func(_ grpc.ServerStream, recv func() error) error {
			for range 2 {
				err := recv()
				got <- grpcfence.Refused(err)
				if err != nil {
					return err
				}
			}
			return nil
		}})
		s, err := c.FullDuplexCall(grpcfence.WithHolder(t.Context(), hold(t, 7)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if i == 1 { // in between, a later holder came
				if _, err := m.Raise(t.Context(), job, grant(12)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if err := <-got; i == 0 && err != nil || i == 1 && !errors.Is(err, want) {
				t.Errorf("once %v, message %d: %v", once, i, err)
			}
		}
		if _, err := s.Recv(); want != nil && !errors.Is(grpcfence.Refused(err), want) {
			t.Errorf("the client sees %v", err)
		}
	}
}

// lastly is a fence that cannot be asked any more after the first answer.
type lastly struct {
	*fence.Memory
	asked int
}

func (l *lastly) Check(ctx context.Context, c fence.Claim) error {
	if l.asked++; l.asked > 1 {
		return failing{}.Check(ctx, c)
	}
	return l.Memory.Check(ctx, c)
}

func TestAStreamWhoseFenceCannotBeAskedAgainEndsAsUnknown(t *testing.T) {
	c := serve(t, &lastly{Memory: fence.NewMemory()}, gate.Options{}, grpcfence.Options{},
		&service{stream: func(_ grpc.ServerStream, recv func() error) error { return recv() }})
	s, err := c.FullDuplexCall(grpcfence.WithHolder(t.Context(), hold(t, 7)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	var r *grpcfence.RefusedError
	if status.Code(err) != codes.Unknown || !errors.As(grpcfence.Refused(err), &r) || r.Reason != grpcfence.ReasonUnavailable || !errors.Is(r, fence.ErrUnknown) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the stream ends with %v", err)
	}
}

func TestAClientStreamEndsWithItsAnswer(t *testing.T) {
	c := serve(t, fence.NewMemory(), gate.Options{Drain: patience}, grpcfence.Options{}, &service{})
	s, err := c.StreamingInputCall(grpcfence.WithHolder(t.Context(), hold(t, 7)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.StreamingInputCallRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := s.CloseAndRecv(); err != nil {
		t.Error(err)
	}
}

func TestDrainEndsEarlierCallsAndStreams(t *testing.T) {
	in := make(chan struct{}, 2)
	var mu sync.Mutex
	var file []fence.Token
	write := func(ctx context.Context) {
		c, _ := grpcfence.FromContext(ctx)
		mu.Lock()
		defer mu.Unlock()
		file = append(file, c.Grant.Token)
	}
	c := serve(t, fence.NewMemory(), gate.Options{Drain: patience}, grpcfence.Options{}, &service{
		unary: func(ctx context.Context) error {
			defer write(ctx)
			if claim, _ := grpcfence.FromContext(ctx); claim.Grant.Token == 7 {
				in <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		},
		stream: func(s grpc.ServerStream, recv func() error) error {
			defer write(s.Context())
			in <- struct{}{}
			return recv() // a message that never comes
		},
	})
	late := make(chan error, 2)
	l := hold(t, 7)
	go func() { late <- call(context.Background(), c, l) }()
	s, err := c.FullDuplexCall(grpcfence.WithHolder(t.Context(), l))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := s.Recv()
		late <- err
	}()
	<-in
	<-in
	if err := call(t.Context(), c, hold(t, 12)); err != nil {
		t.Errorf("12: %v", err)
	}
	for range 2 {
		if err := grpcfence.Refused(<-late); !errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrUnknown) {
			t.Errorf("7 is told %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(file) != "[7 7 12]" {
		t.Errorf("the effects are in the order %v", file)
	}
}

func TestACallThatIgnoresItsEndKeepsLaterOnesOut(t *testing.T) {
	in, on := make(chan struct{}), make(chan struct{})
	c := serve(t, fence.NewMemory(), gate.Options{Drain: time.Millisecond}, grpcfence.Options{}, &service{unary: func(ctx context.Context) error {
		if claim, _ := grpcfence.FromContext(ctx); claim.Grant.Token == 7 {
			close(in)
			<-on
		}
		return nil
	}})
	late := make(chan error, 1)
	seven := hold(t, 7)
	go func() { late <- call(context.Background(), c, seven) }()
	<-in
	err := call(t.Context(), c, hold(t, 12))
	var r *grpcfence.RefusedError
	if status.Code(err) != codes.Unavailable || !errors.As(grpcfence.Refused(err), &r) || r.Reason != grpcfence.ReasonDraining {
		t.Errorf("12, beside 7: %v", err)
	}
	close(on)
	if err := <-late; err != nil {
		t.Errorf("7's own answer became %v", err)
	}
}
