package etcdlease

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// view is a linearizable read of a name.
type view struct {
	first *spot // the oldest place, which holds; nil: there is none
	count int   // of places
	ahead int   // of those created before the revision that was asked about
	floor int64
}

// stale reports whether the oldest place has a token below the floor: it was
// overtaken while it waited, and holds only with a later token, which it is
// about to take.
func (v view) stale() bool { return v.first != nil && v.first.mod < v.floor }

func (v view) state(name string) authority.State {
	switch {
	case v.first == nil:
		return authority.State{Name: name}
	case v.stale():
		return authority.State{Name: name, Waiters: v.count}
	}
	return v.first.state(name, v.count-1)
}

// view reads a name, as a part of what may have changed something. created is the
// revision of one's own place, or zero.
func (a *Authority) view(ctx context.Context, name string, created int64) (view, error) {
	return a.look(ctx, name, created, a.o.explain)
}

func (a *Authority) look(ctx context.Context, name string, created int64, explain func(error) error) (view, error) {
	line := a.keys.line(name)
	gets := []clientv3.Op{
		clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithLimit(2), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)),
		clientv3.OpGet(a.keys.floor(name), clientv3.WithKeysOnly()),
	}
	if created > 1 {
		gets = append(gets, clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(created-1), clientv3.WithKeysOnly()))
	}
	var v view
	var kvs []*mvccpb.KeyValue
	err := a.net.do(ctx, func(ctx context.Context, m *member) error {
		r, err := m.kv.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return err
		}
		v = view{}
		all := r.Responses[0].GetResponseRange()
		kvs, v.count = all.Kvs, int(all.Count)
		if f := r.Responses[1].GetResponseRange().Kvs; len(f) > 0 {
			v.floor = f[0].ModRevision
		}
		if created > 1 {
			v.ahead = len(r.Responses[2].GetResponseRange().Kvs)
		}
		return nil
	})
	if err != nil {
		return v, explain(err)
	}
	return v, v.read(name, kvs)
}

func (v *view) read(name string, kvs []*mvccpb.KeyValue) error {
	if len(kvs) == 0 {
		return nil
	}
	if err := twins(name, kvs); err != nil {
		return err
	}
	s, err := readSpot(kvs[0])
	v.first = &s
	return err
}

// twins refuses a line whose two oldest places are equally old.
func twins(name string, kvs []*mvccpb.KeyValue) error {
	if len(kvs) < 2 || kvs[0].CreateRevision != kvs[1].CreateRevision {
		return nil
	}
	return fmt.Errorf("etcdlease: %w: %q has two places of one revision, which stint never makes: neither holds; nothing was changed; remove one of %q and %q",
		authority.ErrBroken, name, kvs[0].Key, kvs[1].Key)
}

// left is how long etcd keeps a place's lease. It counts whole seconds, so that
// is at most a second more than the truth, and never less.
func (a *Authority) left(ctx context.Context, s spot) (time.Duration, error) {
	var ttl int64
	err := a.net.do(ctx, func(ctx context.Context, m *member) error {
		r, err := m.lease.TimeToLive(ctx, clientv3.LeaseID(s.lease))
		if err == nil {
			ttl = r.TTL
		}
		return err
	})
	if err != nil {
		return 0, a.o.explainRead(err)
	}
	return min(max(time.Duration(ttl+1)*time.Second, time.Millisecond), s.length), nil
}

// Inspect implements authority.Authority. Left is that of the lease which the
// holder shares with others; its own time inside it may be shorter.
func (a *Authority) Inspect(ctx context.Context, name string) (authority.State, error) {
	if err := fence.CheckName(name); err != nil {
		return authority.State{}, fmt.Errorf("%w: %w", authority.ErrInvalid, err)
	}
	if err := a.enter(ctx); err != nil {
		return authority.State{}, err
	}
	v, err := a.look(ctx, name, 0, a.o.explainRead)
	if err != nil {
		return authority.State{}, err
	}
	s := v.state(name)
	if s.Held {
		if s.Left, err = a.left(ctx, *v.first); err != nil {
			return authority.State{}, err
		}
	}
	return s, nil
}

// notHeld says that g has ended, and what the name is now.
func (a *Authority) notHeld(ctx context.Context, g authority.Grant, v view) error {
	s := v.state(g.Name)
	if s.Held {
		if left, err := a.left(ctx, *v.first); err == nil {
			s.Left = left
		}
	}
	return &authority.NotHeldError{Grant: g.Grant, State: s}
}
