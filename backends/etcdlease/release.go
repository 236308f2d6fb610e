package etcdlease

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// Release implements authority.Authority: a delete that demands the grant's
// token, so that repeating it never meets a later one. Where its answer is lost,
// it goes on in the background.
//
// A grant of another client is released as well: that is how a lease is broken
// by hand. Its holder learns of it from its next renewal.
func (a *Authority) Release(ctx context.Context, g authority.Grant) error {
	if err := a.admitRelease(ctx, g); err != nil {
		return err
	}
	a.mu.Lock()
	if a.released.has(past{g.Name, g.Grant}) {
		a.mu.Unlock()
		return a.releasedBefore(ctx, g)
	}
	p := a.own(g)
	if p == nil {
		a.mu.Unlock()
		return a.releaseForeign(ctx, g)
	}
	kind := opRemove
	if p.phase == held && a.clock.Now() >= p.deadline() {
		kind = opExpire // it is over already: not by its own doing
	}
	o, begun := a.removal(p, kind)
	express := !begun && a.express(o)
	fly := !begun && !express && a.pilot(o)
	a.mu.Unlock()
	if express {
		a.deliver(ctx, o)
	}
	if err := a.await(ctx, o, fly); err != nil {
		return err
	}
	return a.releaseEnded(ctx, g, o)
}

func (a *Authority) admitRelease(ctx context.Context, g authority.Grant) error {
	if err := check(g); err != nil {
		return err
	}
	return a.enter(ctx)
}

// releaseEnded says what the end of a delete means for the release of g.
func (a *Authority) releaseEnded(ctx context.Context, g authority.Grant, o *op) error {
	switch {
	case errors.Is(o.err, errRenewedElsewhere):
		return a.Release(ctx, g)
	case o.err != nil && !errors.Is(o.err, errEndedBefore):
		return o.err
	case o.err == nil && o.kind == opRemove:
		return nil
	}
	if o.kind == opRemove { // not there: perhaps since the request came twice
		return a.releasedBefore(ctx, g)
	}
	return a.ended(ctx, g)
}

// releasedBefore repeats a release: nil as long as nobody has followed.
func (a *Authority) releasedBefore(ctx context.Context, g authority.Grant) error {
	v, err := a.view(ctx, g.Name, 0)
	if err != nil || v.first == nil {
		return err
	}
	return a.notHeld(ctx, g, v)
}

// ended says that g had ended before it was released.
func (a *Authority) ended(ctx context.Context, g authority.Grant) error {
	v, err := a.view(ctx, g.Name, 0)
	if err != nil {
		return err
	}
	return a.notHeld(ctx, g, v)
}

func (a *Authority) releaseForeign(ctx context.Context, g authority.Grant) error {
	v, err := a.view(ctx, g.Name, 0)
	if err != nil {
		return err
	}
	if v.first == nil || v.first.grant() != g.Grant || v.stale() {
		return a.notHeld(ctx, g, v)
	}
	// An answer that is lost is followed by another try, which then finds nothing.
	tries := 0
	var done bool
	err = a.net.do(ctx, func(ctx context.Context, m *member) error {
		tries++
		same := clientv3.Compare(clientv3.ModRevision(v.first.key), "=", v.first.mod)
		r, err := m.kv.Txn(ctx).If(same).Then(clientv3.OpDelete(v.first.key)).Commit()
		done = err == nil && r.Succeeded
		return err
	})
	switch {
	case err != nil:
		return a.o.explain(err)
	case done || tries > 1:
		a.mu.Lock()
		a.released.add(past{g.Name, g.Grant})
		a.mu.Unlock()
		return nil
	}
	return a.ended(ctx, g)
}
