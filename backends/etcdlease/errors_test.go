package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/authority"
)

func TestErrorsOfEtcdAreSaidInWords(t *testing.T) {
	w := &words{prefix: "team/stint", user: "anna", login: &login{password: source{file: "/run/pw"}}}
	for _, c := range []struct {
		err    error
		want   string
		broken bool
	}{
		{rpctypes.ErrGRPCAuthFailed, `refuses the user "anna" or the password of the file /run/pw`, false},
		{rpctypes.ErrGRPCInvalidAuthToken, "logs in anew", false},
		{rpctypes.ErrGRPCUserEmpty, "asks for a user", true},
		{rpctypes.ErrGRPCPermissionDenied, "etcdctl role grant-permission --prefix=true ROLE readwrite team/stint/", true},
		{rpctypes.ErrGRPCNoSpace, "may have been done or not", false},
		{rpctypes.ErrGRPCCorrupt, "alarm CORRUPT", true},
		{rpctypes.ErrGRPCRequestTooLarge, "--max-request-bytes", false},
		{rpctypes.ErrGRPCNoLeader, "no leader at the moment", false},
		{rpctypes.ErrGRPCTimeout, "may have been carried out", false},
		{rpctypes.ErrGRPCLeaderChanged, "may have been carried out", false},
		{status.Error(codes.Unavailable, "connection error"), "may have been carried out", false},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), "larger than etcd or its client takes", false},
		{status.Error(codes.Internal, "x"), "unexpected error", false},
		{context.DeadlineExceeded, "no answer from etcd in time; the request may have been carried out", false},
		{status.Error(codes.DeadlineExceeded, "x"), "no answer from etcd in time", false},
		{context.Canceled, "given up", false},
	} {
		for _, err := range []error{c.err, rpctypes.Error(c.err), clientv3.ContextError(t.Context(), c.err)} {
			got := w.explain(err)
			if got == nil || !strings.Contains(got.Error(), c.want) || !strings.HasPrefix(got.Error(), "etcdlease: ") {
				t.Errorf("%v: got %v, want %q", err, got, c.want)
			}
			if !errors.Is(got, err) || errors.Is(got, authority.ErrBroken) != c.broken {
				t.Errorf("%v: broken %v, the error itself %v", err, errors.Is(got, authority.ErrBroken), errors.Is(got, err))
			}
			for _, definite := range []error{authority.ErrHeld, authority.ErrNotHeld, authority.ErrInvalid, authority.ErrClosed} {
				if errors.Is(got, definite) {
					t.Errorf("%v matches %v", got, definite)
				}
			}
		}
	}
	for _, err := range []error{rpctypes.ErrGRPCTimeout, context.DeadlineExceeded} {
		if got := w.explainRead(err).Error(); strings.Contains(got, "carried out") || !strings.Contains(got, "nothing was changed") {
			t.Errorf("of a read: %s", got)
		}
	}
	ours := fmt.Errorf("mine: %w", authority.ErrHeld)
	if w.explain(ours) != ours || w.explain(nil) != nil {
		t.Error("what is not etcd's was changed")
	}
	if got := (&words{prefix: "stint"}).explain(rpctypes.ErrGRPCAuthFailed); !strings.Contains(got.Error(), "the user or the password") {
		t.Errorf("without a URL: %v", got)
	}
}
