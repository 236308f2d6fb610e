package etcdlease

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// settle finds out what became of a Txn whose answer was lost. That its keys are
// absent would prove nothing: it may be carried out later. So first the guards
// are changed that its creates demand; what is read then is final. Deletes are
// guarded too, by the very revision that they delete, so they are just sent
// again.
//
// While etcd is full, a guard cannot be changed. Deletes do not wait for that:
// they, and all further Txns, go on beside it.
func (a *Authority) settle(batch []*op, cause error) {
	if !answered(cause) {
		for _, s := range sessionsOf(batch) {
			if err := a.bump(s, false); is(err, rpctypes.ErrNoSpace) {
				a.settleLater(batch, cause)
				return
			} else if err != nil {
				a.fail(batch, errClosed())
				return
			}
		}
	}
	a.settleNow(batch, cause)
}

// settleLater settles all but deletes when there is room again.
func (a *Authority) settleLater(batch []*op, cause error) {
	var waits []*op
	a.mu.Lock()
	for _, o := range batch {
		if o.kind.removes() {
			o.unsure = true
			a.again(o)
		} else {
			waits = append(waits, o)
		}
	}
	a.mu.Unlock()
	a.group.Go(func() {
		for _, s := range sessionsOf(waits) {
			if a.bump(s, true) != nil {
				a.fail(waits, errClosed())
				return
			}
		}
		a.settleNow(waits, cause)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.queue) > 0 {
			a.launch()
		}
	})
}

// settleNow finds out what has become of a batch that will not be carried out
// any more.
func (a *Authority) settleNow(batch []*op, cause error) {
	over := answered(cause)
	found, ok := a.read(batch)
	if !ok {
		a.fail(batch, errClosed())
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	alone := a.full
	a.full = a.full || over
	for _, o := range batch {
		o.unsure = true
		kv := found[o.p.key]
		mine := kv != nil && kv.Lease == int64(o.p.s.id)
		if mine && o.kind.creates() && nonceOf(kv) != o.p.nonce {
			o.p.s.haunt(o.p.key, kv.ModRevision)
			a.finish(o, errSessionOver)
			a.drop(o.p)
			continue
		}
		switch {
		case o.kind.removes() && (kv == nil || kv.ModRevision != o.p.token):
			a.removed(o, false)
		case o.kind.creates() && mine:
			a.settled(o, kv)
		case o.kind == opRetake && mine && kv.ModRevision != o.p.token:
			o.p.token = kv.ModRevision
			a.finish(o, nil)
		case o.kind == opRetake && !mine:
			a.finish(o, nil)
			a.drop(o.p)
		case over && o.kind.removes() && !alone: // it was refused for what came with it
			a.again(o)
		case over: // refused, and that it will be again
			a.finish(o, a.o.explain(cause))
			if o.kind.creates() {
				a.drop(o.p)
			}
		case o.kind.creates() && (o.p.s.over || o.p.unwanted || o.left):
			a.finish(o, errSessionOver)
			a.drop(o.p)
		default:
			a.again(o)
		}
	}
}

// settled notes that a create has happened. How many are ahead is read anew.
func (a *Authority) settled(o *op, kv *mvccpb.KeyValue) {
	if o.kind == opTry {
		a.made(o, kv.CreateRevision, kv.ModRevision, 0, a.clock.Now())
		return
	}
	a.madeUncounted(o, kv.CreateRevision, kv.ModRevision)
}

// sessionsOf are those on whose guards a batch relies.
func sessionsOf(batch []*op) []*session {
	var all []*session // a few
	for _, o := range batch {
		if !o.kind.removes() && !slices.Contains(all, o.p.s) {
			all = append(all, o.p.s)
		}
	}
	return all
}

// bump changes a session's guard, until that is definite. It fails when the
// authority is closed before, and, unless it is to wait for room, where etcd is
// full.
func (a *Authority) bump(s *session, wait bool) error {
	a.mu.Lock()
	g := s.g
	a.mu.Unlock()
	var full error
	ok := a.insist(func(ctx context.Context, m *member) error {
		r, err := m.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(s.guard), "=", g)).
			Then(clientv3.OpPut(s.guard, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())).
			Else(clientv3.OpGet(s.guard, clientv3.WithKeysOnly())).Commit()
		switch {
		case is(err, rpctypes.ErrNoSpace) && !wait:
			full = err
			return nil
		case err != nil:
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.Succeeded {
			s.g = r.Header.GetRevision()
			return nil
		}
		// An earlier attempt of this very change, unless somebody else was here.
		a.guardStands(s, r.Responses[0].GetResponseRange())
		return nil
	})
	if !ok {
		return errClosed()
	}
	return full
}

// read reads the keys of a batch, until that is definite.
func (a *Authority) read(batch []*op) (map[string]*mvccpb.KeyValue, bool) {
	gets := make([]clientv3.Op, len(batch))
	for i, o := range batch {
		gets[i] = clientv3.OpGet(o.p.key)
	}
	found := map[string]*mvccpb.KeyValue{}
	ok := a.insist(func(ctx context.Context, m *member) error {
		r, err := m.kv.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return err
		}
		for _, answer := range r.Responses {
			for _, kv := range answer.GetResponseRange().Kvs {
				found[string(kv.Key)] = kv
			}
		}
		return nil
	})
	return found, ok
}

// insist repeats a request until it is answered, also by refusals: what has to
// be settled cannot be given up. Only Close ends it.
func (a *Authority) insist(f func(context.Context, *member) error) bool {
	for {
		if err := a.net.do(a.ctx, f); err == nil {
			return true
		}
		if !rest(a.ctx, a.o.Timeout/4) {
			return false
		}
	}
}
