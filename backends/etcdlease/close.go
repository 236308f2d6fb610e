package etcdlease

import (
	"context"
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// closeWait is for how long Close tidies up behind itself.
const closeWait = 2 * time.Second

// Close implements authority.Authority. It releases no lease: those that are
// held run out, since nobody renews them any more. What else is there goes at
// once, as far as etcd answers: places of waiters, and shared leases that
// nothing is held on. It waits until all goroutines have ended.
func (a *Authority) Close() error {
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		<-a.ctx.Done()
		a.group.Wait()
		return errClosed()
	}
	a.closing = true
	close(a.closed)
	var waiters []*op
	for _, p := range a.places {
		if p.phase == inLine {
			waiters = append(waiters, a.remove(p, opRemove))
		}
	}
	a.mu.Unlock()

	ctx, cancel := context.WithTimeout(a.ctx, closeWait)
	for _, o := range waiters {
		if a.within(ctx, o.done) != nil {
			break
		}
	}
	for _, id := range a.unused() {
		_ = a.net.do(ctx, func(ctx context.Context, m *member) error {
			_, err := m.lease.Revoke(ctx, id)
			return err
		})
	}
	cancel()
	a.cancel()
	a.mu.Lock() // whoever has not seen the end yet has begun what is waited for
	sessions := maps.Clone(a.all)
	a.mu.Unlock()
	a.group.Wait()
	for s := range sessions {
		s.pulse.close()
	}
	a.net.close()
	if a.o.OwnClient {
		a.client.Close()
	}
	return nil
}

// unused lists the leases on which nothing is held.
func (a *Authority) unused() []clientv3.LeaseID {
	a.mu.Lock()
	defer a.mu.Unlock()
	busy := map[*session]bool{}
	for _, p := range a.places {
		if p.phase == held {
			busy[p.s] = true
		}
	}
	var ids []clientv3.LeaseID
	for s := range a.all {
		if !busy[s] {
			ids = append(ids, s.id)
		}
	}
	return ids
}
