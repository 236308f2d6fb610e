//go:build !race

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
)

// ours is the project's side: an authority on all members, and a client on it.
type ours struct {
	etcd      *clientv3.Client
	authority *etcdlease.Authority
	client    *stint.Client
	nonces    atomic.Int64
}

func newOurs(endpoints []string, o stint.Options) (*ours, error) {
	etcd, err := client(endpoints...)
	if err != nil {
		return nil, err
	}
	us := &ours{etcd: etcd}
	if us.authority, err = etcdlease.New(etcd, etcdlease.Options{Prefix: "bench"}); err != nil {
		return nil, errors.Join(err, etcd.Close())
	}
	if us.client, err = stint.New(us.authority, o); err != nil {
		return nil, errors.Join(err, us.authority.Close(), etcd.Close())
	}
	return us, nil
}

func (us *ours) close() error {
	return errors.Join(us.client.Close(), us.authority.Close(), us.etcd.Close())
}

// cycle acquires and releases as users do.
func (us *ours) cycle(ctx context.Context, name string) error {
	l, err := us.client.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// bareCycle does so without the client on top.
func (us *ours) bareCycle(ctx context.Context, name string) error {
	nonce := fmt.Sprint("n", us.nonces.Add(1))
	r := authority.Request{Name: name, Length: 10 * time.Second, Nonce: nonce, Waiter: nonce}
	g, err := us.authority.Acquire(ctx, r)
	if err != nil {
		return err
	}
	return us.authority.Release(ctx, g)
}

// library is the rival's side: one client on the leader, one Session.
type library struct {
	etcd    *clientv3.Client
	session *concurrency.Session
}

func newLibrary(ctx context.Context, s *servers) (*library, error) {
	leader, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	etcd, err := client(leader)
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(etcd, concurrency.WithTTL(10))
	if err != nil {
		return nil, errors.Join(err, etcd.Close())
	}
	return &library{etcd, session}, nil
}

func (l *library) close() error { return errors.Join(l.session.Close(), l.etcd.Close()) }

func (l *library) cycle(ctx context.Context, name string) error {
	m := concurrency.NewMutex(l.session, "/library/"+name)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

// sides are both, on the same servers.
func (b *bench) sides(s *servers) (us *ours, lib *library, done func(), err error) {
	if us, err = newOurs(s.endpoints, stint.Options{}); err != nil {
		return nil, nil, nil, err
	}
	if lib, err = newLibrary(b.ctx, s); err != nil {
		us.close()
		return nil, nil, nil, err
	}
	return us, lib, func() { lib.close(); us.close() }, nil
}
