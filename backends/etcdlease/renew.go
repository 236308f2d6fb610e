package etcdlease

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

func check(g authority.Grant) error {
	return authority.Request{Name: g.Name, Length: authority.MinLength, Nonce: g.Nonce}.Check()
}

// Renew implements authority.Authority. It joins the round of its session, which
// renews all leases of this client and length for the price of one; a round that
// was sent a moment ago is an answer at once.
func (a *Authority) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	if err := check(g); err != nil {
		return authority.Grant{}, err
	}
	if err := a.enter(ctx); err != nil {
		return authority.Grant{}, err
	}
	for waited := false; ; waited = true {
		p, r, renewed := a.renewal(g, waited)
		switch {
		case p == nil:
			return a.renewForeign(ctx, g)
		case r == nil && renewed.Name == "": // its time is over: not renewed any more
			if err := a.cleared(ctx, p); err != nil && !errors.Is(err, errRenewedElsewhere) {
				return authority.Grant{}, err
			}
			continue
		case r == nil:
			return renewed, nil
		}
		if err := a.outcome(ctx, r); err != nil {
			return authority.Grant{}, err
		}
	}
}

// renewal finds what answers a renewal: a proof that is there already (the
// grant), a round to wait for, or neither when the lease is over. The place is
// nil when the grant is none of this client's. Who has waited for a round takes
// what it has proven, however long ago it was sent: the grant says so.
func (a *Authority) renewal(g authority.Grant, waited bool) (*place, *round, authority.Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.own(g)
	if p == nil {
		return nil, nil, authority.Grant{}
	}
	now := a.clock.Now()
	switch {
	case p.phase == removing:
		return p, nil, authority.Grant{}
	case now >= p.deadline():
		a.remove(p, opExpire)
		return p, nil, authority.Grant{}
	case p.takeProof(now, waited):
		return p, nil, p.grant()
	case p.s.over:
		a.remove(p, opExpire)
		return p, nil, authority.Grant{}
	}
	return p, p.s.begin(), authority.Grant{}
}

// takeProof takes what was proven of the place as its renewal, if that is late
// enough: within half of the usual time between two renewals, so that leases
// whose renewals are due at different times come to share one round. a.mu is
// held.
func (p *place) takeProof(now authority.Instant, waited bool) bool {
	if p.proven <= p.from || !waited && now.Sub(p.proven) >= p.s.length*3/20+p.s.pace {
		return false
	}
	p.from = p.proven
	return true
}

// own finds the place that a grant is. a.mu is held.
func (a *Authority) own(g authority.Grant) *place {
	p := a.nonces[nonce{g.Name, g.Nonce}]
	if p == nil || p.token != int64(g.Token) || p.nonce != g.Nonce || p.phase != held && p.phase != removing {
		return nil
	}
	return p
}

// outcome waits for a round, and says why it has renewed nothing. A lease that
// has ended is no failure: another look finds its places over.
func (a *Authority) outcome(ctx context.Context, r *round) error {
	if err := a.within(ctx, r.done); err != nil {
		return err
	}
	if r.err != nil && !errors.Is(r.err, errLeaseGone) && !errors.Is(r.err, errUnproven) {
		return fmt.Errorf("etcdlease: not renewed: %w", a.o.explain(r.err))
	}
	return nil
}

// renewForeign renews a grant of another client: one whose process has gone, or
// that another handle of this one has acquired. It keeps the whole lease of that
// client alive, and tells the client by changing its guard, so that it does not
// end what it has not renewed itself.
func (a *Authority) renewForeign(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	v, err := a.view(ctx, g.Name, 0)
	if err != nil {
		return authority.Grant{}, err
	}
	if v.first == nil || v.first.grant() != g.Grant || v.stale() {
		return authority.Grant{}, a.notHeld(ctx, g, v)
	}
	first := v.first
	guard := a.keys.guard(first.Client)
	var there bool
	err = a.net.do(ctx, func(ctx context.Context, m *member) error {
		if _, err := m.lease.KeepAliveOnce(ctx, clientv3.LeaseID(first.lease)); err != nil {
			return err
		}
		same := clientv3.Compare(clientv3.ModRevision(first.key), "=", first.mod)
		alive := clientv3.Compare(clientv3.CreateRevision(guard), "!=", 0)
		r, err := m.kv.Txn(ctx).If(same, alive).Then(clientv3.OpPut(guard, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())).Commit()
		there = err == nil && r.Succeeded
		return err
	})
	switch {
	case err != nil && !leaseGone(err):
		return authority.Grant{}, a.o.explain(err)
	case err != nil || !there:
		if v, err = a.view(ctx, g.Name, 0); err != nil {
			return authority.Grant{}, err
		}
		return authority.Grant{}, a.notHeld(ctx, g, v)
	}
	return authority.Grant{Grant: g.Grant, Name: g.Name, Length: first.length}, nil
}
