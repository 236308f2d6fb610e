package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/stint-dev/stint/authority"
)

const (
	// openWait is for how long opening waits for a first answer. Servers that
	// are down or electing a leader are no reason to fail: whoever acquires goes
	// on trying for as long as it may.
	openWait = 2 * time.Second
	// connectWait is for how long a server may take to greet a connection.
	connectWait = 3 * time.Second
	// A server that came back is found again within a renewal's interval; gRPC's
	// own default waits for up to two minutes.
	firstRetry, lastRetry = 50 * time.Millisecond, time.Second
	// gRPC asks a silent connection for a sign of life at least this seldom; the
	// kernel gives one up whose data nobody acknowledges after lifeWait.
	lifeEvery, lifeWait = 10 * time.Second, 3 * time.Second
)

// connection is etcd's client, made for a URL.
type connection struct {
	client *clientv3.Client
	words  *words
}

// connect makes the client and asks the servers once. An answer that somebody
// has to mend something fails it; no answer does not, unless ctx has ended.
func connect(ctx context.Context, s settings) (*connection, error) {
	c, err := newConnection(s)
	if err != nil {
		return nil, err
	}
	if err := c.check(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func newConnection(s settings) (*connection, error) {
	w := newWires(s.hosts)
	says := &words{prefix: s.prefix, files: s.tls, wires: w}
	if s.tls != nil {
		if _, err := s.tls.config(); err != nil {
			return nil, fmt.Errorf("etcdlease: %w: %w", authority.ErrInvalid, err)
		}
	}
	intercept := []grpc.UnaryClientInterceptor{w.intercept}
	cfg := clientv3.Config{
		Endpoints:            s.hosts,
		Logger:               zap.NewNop(),
		DialKeepAliveTime:    lifeEvery,
		DialKeepAliveTimeout: lifeWait,
	}
	if s.password.set() {
		l := &login{user: s.user, password: s.password}
		now, err := l.read()
		if err != nil {
			return nil, fmt.Errorf("etcdlease: %w: the user or password: %w", authority.ErrInvalid, err)
		}
		says.login, says.user = l, now.user
		// Any password does: login puts the right one in.
		cfg.Username, cfg.Password = now.user, "of "+s.password.String()
		intercept = append([]grpc.UnaryClientInterceptor{l.intercept}, intercept...)
	}
	cfg.DialOptions = []grpc.DialOption{
		grpc.WithContextDialer(w.dial), // through no proxy: a lease is not worth more than its shortest way
		grpc.WithTransportCredentials(newHandshakes(s.tls, w)),
		grpc.WithChainUnaryInterceptor(intercept...),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: connectWait,
			Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastRetry},
		}),
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcdlease: %w: %w", authority.ErrInvalid, err)
	}
	if says.login != nil {
		ctx := client.Ctx()
		says.login.base.Store(&ctx)
	}
	return &connection{client, says}, nil
}

// check reads one key below the prefix, which needs all that leases need: a
// connection, the user, the right to the prefix, and a leader.
func (c *connection) check(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	c.words.wires.whenHopeless(cancel)
	defer c.words.wires.whenHopeless(nil)
	_, err := c.client.Get(short, c.words.prefix+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err == nil {
		return nil
	}
	plain := c.words.explainRead(err)
	switch {
	case errors.Is(plain, authority.ErrBroken), ctx.Err() != nil:
		return plain
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed):
		return fmt.Errorf("%w: %w", plain, authority.ErrBroken)
	case !c.words.wires.mayMend():
		return fmt.Errorf("etcdlease: no server of etcd can be used%s: %w", c.words.because(), authority.ErrBroken)
	}
	return nil
}

// close ends the client's goroutines and connections.
func (c *connection) close() {
	c.client.Close() // its error says only that it was closed
}

func init() {
	authority.Register(plainScheme, open)
	authority.Register(tlsScheme, open)
}

// open opens the authority of a URL: see the package's comment.
func open(ctx context.Context, u *url.URL) (authority.Authority, error) {
	s, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, s)
	if err != nil {
		return nil, err
	}
	a, err := New(c.client, Options{Prefix: s.prefix, OwnClient: true, explain: c.words.explain, explainRead: c.words.explainRead})
	if err != nil {
		c.close()
		return nil, err
	}
	return a, nil
}
