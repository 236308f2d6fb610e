package sqlitelease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/rpc"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest"
)

func TestConformanceThroughTwoProcesses(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{NoBulk: true, Open: func(t *testing.T) authoritytest.Handle {
		path := newPath(t)
		return authoritytest.Handle{
			Authority: openAt(t, path, Options{}),
			Peer:      func(t *testing.T) authority.Authority { return dial(t, path) },
		}
	}})
}

// elsewhere is an authority in another process, over its standard streams.
type elsewhere struct {
	client *rpc.Client
	p      *process
	calls  atomic.Int64
}

func dial(t *testing.T, path string) *elsewhere {
	p, in, out := startRaw(t, path)
	return &elsewhere{client: rpc.NewClient(pipes{out, in}), p: p}
}

type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

// Call is what travels; it serves all methods.
type Call struct {
	ID      int64
	Op      string
	Name    string
	Request authority.Request
	Grant   authority.Grant
}

// Reply is what comes back.
type Reply struct {
	Grant  authority.Grant
	States []authority.State
	Held   *authority.HeldError
	Lost   *authority.NotHeldError
	Length *authority.LengthError
	Err    string
	Kind   int // of a plain error: an index of kinds, plus one
}

var kinds = []error{authority.ErrInvalid, authority.ErrClosed, context.Canceled, context.DeadlineExceeded}

func (r *Reply) pack(err error) {
	if errors.As(err, &r.Held) || errors.As(err, &r.Lost) || errors.As(err, &r.Length) || err == nil {
		return
	}
	r.Err = err.Error()
	for i, k := range kinds {
		if errors.Is(err, k) {
			r.Kind = i + 1
		}
	}
}

func (r *Reply) unpack() error {
	switch {
	case r.Held != nil:
		return r.Held
	case r.Lost != nil:
		return r.Lost
	case r.Length != nil:
		return r.Length
	case r.Err == "":
		return nil
	case r.Kind > 0:
		return fmt.Errorf("%s: %w", r.Err, kinds[r.Kind-1])
	}
	return errors.New(r.Err)
}

func (r *elsewhere) do(ctx context.Context, c Call) (Reply, error) {
	c.ID = r.calls.Add(1)
	var out Reply
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	sent := r.client.Go("Server.Do", c, &out, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		r.client.Go("Server.Cancel", c.ID, &struct{}{}, make(chan *rpc.Call, 1))
		<-sent.Done
	case <-sent.Done:
	}
	if errors.Is(sent.Error, rpc.ErrShutdown) {
		return out, authority.ErrClosed
	}
	return out, errors.Join(sent.Error, out.unpack())
}

func unwrapOne(err error) error { // the suite compares by type as callers do
	if j, ok := err.(interface{ Unwrap() []error }); ok && len(j.Unwrap()) == 1 {
		return j.Unwrap()[0]
	}
	return err
}

func (r *elsewhere) Acquire(ctx context.Context, q authority.Request) (authority.Grant, error) {
	out, err := r.do(ctx, Call{Op: "acquire", Request: q})
	return out.Grant, unwrapOne(err)
}

func (r *elsewhere) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	out, err := r.do(ctx, Call{Op: "renew", Grant: g})
	return out.Grant, unwrapOne(err)
}

func (r *elsewhere) Release(ctx context.Context, g authority.Grant) error {
	_, err := r.do(ctx, Call{Op: "release", Grant: g})
	return unwrapOne(err)
}

func (r *elsewhere) Inspect(ctx context.Context, name string) (authority.State, error) {
	out, err := r.do(ctx, Call{Op: "inspect", Name: name})
	if err != nil {
		return authority.State{}, unwrapOne(err)
	}
	return out.States[0], nil
}

func (r *elsewhere) Wait(ctx context.Context, q authority.Request) error {
	_, err := r.do(ctx, Call{Op: "wait", Request: q})
	return unwrapOne(err)
}

func (r *elsewhere) Leave(ctx context.Context, q authority.Request) error {
	_, err := r.do(ctx, Call{Op: "leave", Request: q})
	return unwrapOne(err)
}

func (r *elsewhere) List(ctx context.Context) iter.Seq2[authority.State, error] {
	return func(yield func(authority.State, error) bool) {
		out, err := r.do(ctx, Call{Op: "list"})
		for _, s := range out.States {
			if !yield(s, nil) {
				return
			}
		}
		if err != nil {
			yield(authority.State{}, err)
		}
	}
}

func (r *elsewhere) Lateness() time.Duration { return (*Authority)(nil).Lateness() }

func (r *elsewhere) Close() error {
	_, err := r.do(context.Background(), Call{Op: "close"})
	if errors.Is(err, authority.ErrClosed) {
		return nil
	}
	return err
}

// Server is the child's end.
type Server struct {
	a       *Authority
	mu      sync.Mutex
	cancels map[int64]context.CancelFunc
}

func serveAuthority(path string) int {
	a, err := Open(context.Background(), path, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer a.Close()
	s := rpc.NewServer()
	if err := s.Register(&Server{a: a, cancels: map[int64]context.CancelFunc{}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.ServeConn(pipes{os.Stdin, os.Stdout})
	return 0
}

// Cancel ends the context of a call.
func (s *Server) Cancel(id int64, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cancels[id]; c != nil {
		c()
	}
	return nil
}

// Do performs a call.
func (s *Server) Do(c Call, out *Reply) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.cancels[c.ID] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.cancels, c.ID)
		s.mu.Unlock()
		cancel()
	}()
	switch c.Op {
	case "acquire":
		out.Grant, err = s.a.Acquire(ctx, c.Request)
	case "renew":
		out.Grant, err = s.a.Renew(ctx, c.Grant)
	case "release":
		err = s.a.Release(ctx, c.Grant)
	case "inspect":
		var st authority.State
		st, err = s.a.Inspect(ctx, c.Name)
		out.States = []authority.State{st}
	case "wait":
		err = s.a.Wait(ctx, c.Request)
	case "leave":
		err = s.a.Leave(ctx, c.Request)
	case "list":
		for st, e := range s.a.List(ctx) {
			if err = e; err == nil {
				out.States = append(out.States, st)
			}
		}
	case "close":
		err = s.a.Close()
	}
	out.pack(err)
	return nil
}
