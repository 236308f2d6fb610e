package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// source is where a user or a password comes from: one of the three.
type source struct{ value, file, env string }

func (s source) set() bool { return s != source{} }

// maxSecret is far more than any password, and keeps a wrong path from being
// read whole.
const maxSecret = 4096

// read returns what the source says now. Its errors name the source and never
// what it says.
func (s source) read() (string, error) {
	switch {
	case s.file != "":
		b, err := os.ReadFile(s.file)
		if err != nil {
			return "", err
		}
		v := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
		if v == "" || len(v) > maxSecret {
			return "", fmt.Errorf("%s has %d bytes; one line of 1 to %d is expected", s.file, len(b), maxSecret)
		}
		return v, nil
	case s.env != "":
		v := os.Getenv(s.env)
		if v == "" {
			return "", fmt.Errorf("the environment variable %s is not set, or is empty", s.env)
		}
		return v, nil
	}
	return s.value, nil
}

// String says where, for people.
func (s source) String() string {
	switch {
	case s.file != "":
		return "the file " + s.file
	case s.env != "":
		return "the environment variable " + s.env
	}
	return "the URL"
}

// login logs in for etcd's client. That asks for a new token whenever the
// servers do not know its old one (it ran out, the password was changed, they
// were restarted) and before each stream, but always with the user and the
// password that it was made with. login stands between it and the connection,
// and puts in what the sources say at that moment: a changed password is used
// as soon as it is needed, and the client itself never sees one.
//
// Files and servers are not changed in one instant, so the password that was
// taken last is tried too when the present one is refused.
type login struct {
	user, password source

	// base is the client's life. Until it is set the client is being made, and
	// must not wait for a server.
	base atomic.Pointer[context.Context]

	mu      sync.Mutex
	flight  *flight
	taken   pair  // what was accepted last
	trouble error // why the sources could not be read, the last time
}

type pair struct{ user, password string }

// flight is one login under way, with those who wait for its answer: hashing a
// password costs a server more than anything else that it does here. It goes on
// when they have given up, and its token is for the next one who asks, so that
// requests with short time-outs get through, too.
type flight struct {
	done  chan struct{}
	reply pb.AuthenticateResponse
	err   error
}

const (
	authenticate = "/etcdserverpb.Auth/Authenticate"
	// loginWait bounds one login: a server that is stopped must not hold up
	// those who could log in at another one.
	loginWait = 3 * time.Second
)

// intercept is a grpc.UnaryClientInterceptor.
func (l *login) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	answer, ok := reply.(*pb.AuthenticateResponse)
	if method != authenticate || !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	base := l.base.Load()
	if base == nil {
		// The client goes on without a token, and comes back for one when a
		// server refuses its first request.
		return rpctypes.ErrGRPCAuthNotEnabled
	}
	f := l.join(func(f *flight) {
		ctx, cancel := context.WithTimeout(*base, loginWait)
		defer cancel()
		f.err = l.ask(&f.reply, func(p pair, reply *pb.AuthenticateResponse) error {
			return invoke(ctx, method, &pb.AuthenticateRequest{Name: p.user, Password: p.password}, reply, cc, grpc.WaitForReady(true))
		})
	})
	select {
	case <-f.done:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	l.mu.Lock()
	if l.flight == f {
		l.flight = nil
	}
	l.mu.Unlock()
	answer.Header, answer.Token = f.reply.Header, f.reply.Token
	if c := status.Code(f.err); (c == codes.Canceled || c == codes.DeadlineExceeded) && ctx.Err() == nil {
		return status.Error(codes.Unavailable, "no login in time: "+f.err.Error()) // it was not the caller's end
	}
	return f.err
}

// join returns the login that is under way, or whose token nobody has taken, and
// else begins one.
func (l *login) join(begin func(*flight)) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight != nil {
		return l.flight
	}
	f := &flight{done: make(chan struct{})}
	l.flight = f
	go func() { // ends with the client, or by its own time
		begin(f)
		l.mu.Lock()
		if f.err != nil && l.flight == f {
			l.flight = nil // a failure is nothing to keep
		}
		l.mu.Unlock()
		close(f.done)
	}()
	return f
}

// ask tries what the sources say, then what was accepted last.
func (l *login) ask(reply *pb.AuthenticateResponse, try func(pair, *pb.AuthenticateResponse) error) error {
	now, err := l.read()
	l.mu.Lock()
	last := l.taken
	l.trouble = err
	l.mu.Unlock()
	if err != nil {
		if last == (pair{}) {
			return status.Error(codes.Unauthenticated, "the user or password cannot be read: "+err.Error())
		}
		now = last
	}
	err = try(now, reply)
	if wrongLogin(err) && last != (pair{}) && last != now {
		reply.Reset()
		if try(last, reply) == nil {
			return nil // the servers do not know the new one yet
		}
		return err
	}
	if err == nil {
		l.mu.Lock()
		l.taken = now
		l.mu.Unlock()
	}
	return err
}

func (l *login) read() (pair, error) {
	user, err := l.user.read()
	if err != nil {
		return pair{}, err
	}
	password, err := l.password.read()
	return pair{user, password}, err
}

func wrongLogin(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed)
}

// troubled says why the sources could not be read, or nil.
func (l *login) troubled() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}
