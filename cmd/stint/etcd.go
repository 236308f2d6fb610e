package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/backends/etcdlease" // etcd:// and etcds:// URLs
	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

// etcdFlags say which etcd a command looks after.
type etcdFlags struct{ url string }

func (e *etcdFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&e.url, "authority", "etcd://"+etcdnode.DefaultListen,
		"URL of the nodes, with the user root where users are set up, as in etcds://root@HOST:2379?ca=ca.pem&password-file=root.pw")
}

// dial prepares the connection.
func (e *etcdFlags) dial() (*etcdlease.Servers, error) {
	s, err := etcdlease.Dial(e.url)
	if err != nil {
		return nil, &report.Problem{Code: report.ExitConfig, Err: err, Data: "nothing was done", Do: "check --authority and STINT_AUTHORITY"}
	}
	return s, nil
}

// ask has one question put to the nodes, in a bounded time.
func (e *etcdFlags) ask(question func(ctx context.Context, s *etcdlease.Servers) error) error {
	s, err := e.dial()
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	return question(ctx, s)
}

// unread is what the nodes did not tell.
func (e *etcdFlags) unread(s *etcdlease.Servers, what string, err error) error {
	return e.problem(what, "nothing was changed", s.ExplainRead(err), err)
}

// refused is a change that the nodes did not make, or did not say so.
func (e *etcdFlags) refused(s *etcdlease.Servers, what string, err error) error {
	data := "nothing was changed"
	// The words differ where the outcome is open.
	if s.Explain(err).Error() != s.ExplainRead(err).Error() {
		data = "look whether it was done; to do it again is harmless"
	}
	return e.problem(what, data, s.Explain(err), err)
}

func (e *etcdFlags) problem(what, data string, plain, err error) error {
	p := &report.Problem{Code: report.ExitService, What: what, Err: plain, Data: data}
	if errors.Is(plain, context.DeadlineExceeded) || status.Code(err) == codes.Unavailable {
		p.Do = "look whether stint serve runs there (where users are set up, a login takes more than half of the nodes), and check --authority and STINT_AUTHORITY"
	}
	if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
		p.Code, p.Err = report.ExitConfig, errors.New("that is for the user root only, where users are set up")
		p.Do = "write --authority 'etcd://root@HOST:2379?password-file=FILE' (etcds:// with TLS)"
	}
	return p
}
