package etcdlease

import (
	"context"
	"sync"

	"github.com/stint-dev/stint/authority"
)

// RenewAll implements authority.BulkRenewer. All grants are looked at in one go,
// and those that are not proven yet wait together for their session's round,
// which answers for all of them, also if it fails.
func (a *Authority) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	b := bulk{a: a, ctx: ctx, grants: grants, answers: make([]authority.Renewal, len(grants)), slots: make(chan struct{}, 16)}
	if err := a.enter(ctx); err != nil {
		for i := range b.answers {
			b.answers[i].Err = err
		}
		return b.answers
	}
	left := make([]int, len(grants))
	for i := range left {
		left[i] = i
	}
	for waited := false; len(left) > 0; waited = true {
		unproven, others := b.take(left, waited)
		for _, i := range others {
			b.renew(i)
		}
		left = b.await(unproven)
	}
	b.singles.Wait()
	return b.answers
}

// bulk is one RenewAll.
type bulk struct {
	a       *Authority
	ctx     context.Context
	grants  []authority.Grant
	answers []authority.Renewal
	singles sync.WaitGroup
	slots   chan struct{}
}

// pending is a grant that a round is about to prove.
type pending struct {
	i int
	r *round
}

// take answers those of the grants that are proven. The others wait for a round,
// or are to be looked at one by one: leases that are over, and those of other
// clients.
func (b *bulk) take(left []int, waited bool) (unproven []pending, others []int) {
	a := b.a
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for _, i := range left {
		p := a.own(b.grants[i])
		switch {
		case p == nil || p.phase == removing || now >= p.deadline():
			others = append(others, i)
		case p.takeProof(now, waited):
			b.answers[i].Grant = p.grant()
		case p.s.over:
			others = append(others, i)
		default:
			unproven = append(unproven, pending{i, p.s.begin()})
		}
	}
	return unproven, others
}

// renew renews one grant by itself, beside the others: it may cost requests of
// its own.
func (b *bulk) renew(i int) {
	b.slots <- struct{}{}
	b.singles.Go(func() {
		b.answers[i].Grant, b.answers[i].Err = b.a.Renew(b.ctx, b.grants[i])
		<-b.slots
	})
}

// await waits for rounds, and returns the grants that are to be looked at again.
func (b *bulk) await(unproven []pending) (left []int) {
	var r *round
	var err error
	for _, one := range unproven {
		if one.r != r {
			r = one.r
			err = b.a.outcome(b.ctx, r)
		}
		if b.answers[one.i].Err = err; err == nil {
			left = append(left, one.i)
		}
	}
	return left
}
