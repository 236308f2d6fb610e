package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
)

// A login is a change, which takes more than half of the nodes. With fewer, a
// node tells nobody how it does; but that it is there, it tells everybody.

// noLogin is what a node that is alive complains of then.
const noLogin = "answers, and lets nobody log in: that takes more than half of the nodes"

// loginMayFail reports whether the nodes may have failed to answer for want of a
// login alone.
func loginMayFail(s *etcdlease.Servers, err error) bool {
	return s.Client.Username != "" && !errors.Is(err, rpctypes.ErrAuthFailed) && !errors.Is(s.ExplainRead(err), authority.ErrBroken)
}

// askApart asks each host of the URL by itself, without a login. It reports
// whether anybody answered.
func (e *etcdFlags) askApart(ctx context.Context) (clusterStatus, bool) {
	st := clusterStatus{NoLogin: true}
	s, err := etcdlease.Dial(asUser(e.url, "", ""))
	if err != nil {
		return st, false
	}
	defer s.Close()
	st.Nodes = make([]nodeStatus, len(s.Hosts))
	var all sync.WaitGroup
	for i, host := range s.Hosts {
		n := &st.Nodes[i]
		n.Address = host
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, nodePatience)
			defer cancel()
			_, err := s.Client.Status(ctx, host)
			switch {
			case err == nil || errors.Is(err, rpctypes.ErrUserEmpty):
				n.Answers, n.Problems = true, []string{noLogin}
			default:
				n.Problems = []string{cmp.Or(s.Trouble(host), s.ExplainRead(err)).Error()}
			}
		})
	}
	all.Wait()
	return st, slices.ContainsFunc(st.Nodes, func(n nodeStatus) bool { return n.Answers })
}
