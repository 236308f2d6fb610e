//go:build !race

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// hold is how long each keeps the lock: long enough for the next to be in line.
const hold = 3 * time.Millisecond

// The bars of a handover with 8 waiters on 3 nodes: this part of the library's.
var handoverAtMost = percentiles{0.5, 0.1, 0.1}

// contender takes a lock and returns what gives it back.
type contender func(ctx context.Context) (release func() error, err error)

// relay measures the time from one holder's release to the next one's grant.
type relay struct {
	mu       sync.Mutex
	released time.Time
	took     []time.Duration
	failed   error
}

func (r *relay) granted(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.released.IsZero() {
		r.took = append(r.took, now.Sub(r.released))
	}
}

func (r *relay) releases() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = time.Now()
}

func (r *relay) over(most int, end time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.took) >= most || r.failed != nil || len(r.took) > 0 && time.Now().After(end)
}

// relay lets one more contender than there are waiters take turns.
func (b *bench) relay(waiters int, one func(i int) (contender, error)) ([]time.Duration, error) {
	r := &relay{}
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	var all sync.WaitGroup
	end := time.Now().Add(b.scale.atMost)
	for i := range waiters + 1 {
		take, err := one(i)
		if err != nil {
			return nil, err
		}
		all.Go(func() {
			for !r.over(b.scale.handovers, end) {
				if err := r.leg(ctx, take); err != nil && ctx.Err() == nil {
					r.mu.Lock()
					r.failed = errors.Join(r.failed, err)
					r.mu.Unlock()
				}
			}
			stop() // those who still wait
		})
	}
	all.Wait()
	return r.took, r.failed
}

func (r *relay) leg(ctx context.Context, take contender) error {
	release, err := take(ctx)
	if err != nil {
		return err
	}
	r.granted(time.Now())
	time.Sleep(hold)
	r.releases()
	return release()
}

// relayOurs is a relay through one client.
func (b *bench) relayOurs(us *ours, waiters, turn int) ([]time.Duration, error) {
	name := fmt.Sprintf("relay/%d/%d", waiters, turn)
	return b.relay(waiters, func(int) (contender, error) {
		return func(ctx context.Context) (func() error, error) {
			l, err := us.client.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(context.Background()) }, nil
		}, nil
	})
}

// relayLibrary is one through one client too, with a Session for each: two
// Mutexes of one Session and name would hold together.
func (b *bench) relayLibrary(lib *library, waiters, turn int) ([]time.Duration, error) {
	var sessions []*concurrency.Session
	defer func() {
		for _, s := range sessions {
			_ = s.Close()
		}
	}()
	return b.relay(waiters, func(int) (contender, error) {
		s, err := concurrency.NewSession(lib.etcd, concurrency.WithTTL(10))
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
		m := concurrency.NewMutex(s, fmt.Sprintf("/relay/%d/%d", waiters, turn))
		return func(ctx context.Context) (func() error, error) {
			return func() error { return m.Unlock(context.Background()) }, m.Lock(ctx)
		}, nil
	})
}

func (b *bench) handover(s *servers) error {
	us, lib, done, err := b.sides(s)
	if err != nil {
		return err
	}
	defer done()
	turn := 0
	for _, writes := range []int{0, 400} {
		b.title("handover, ms p50 p90 p99, %d nodes, %d writes/s beside it (all of %d turns)", len(s.members), writes, b.scale.turns)
		b.row("waiters", "%-26s %-26s %-26s %s", "library", "stint", "ratio", "a write alone")
		quiet := b.writeBeside(lib.etcd, writes)
		for _, waiters := range []int{2, 8, 64} {
			turn += 100
			if err := b.compareHandover(len(s.members), waiters, us, lib, turn); err != nil {
				quiet()
				return err
			}
		}
		quiet()
	}
	return nil
}

// compareHandover takes the percentiles of all handovers of all turns: in one
// turn there are too few to tell a p99. Beside the two it times a write that
// nothing else waits for: a release is one, so no handover is faster.
func (b *bench) compareHandover(nodes, waiters int, us *ours, lib *library, turn int) error {
	all, err := turns(b.scale.turns,
		func() ([]time.Duration, error) { turn++; return b.relayLibrary(lib, waiters, turn) },
		func() ([]time.Duration, error) { turn++; return b.relayOurs(us, waiters, turn) },
		func() ([]time.Duration, error) { return b.writes(lib.etcd) })
	if err != nil {
		return err
	}
	l, o, w := percentilesOf(slices.Concat(all[0]...)), percentilesOf(slices.Concat(all[1]...)), percentilesOf(slices.Concat(all[2]...))
	ratio := o.per(l)
	b.row(fmt.Sprint(waiters), "%-26v %-26v %-26v %v", l, o, ratio, w)
	if nodes == 3 && waiters == 8 {
		for i, what := range []string{"p50", "p90", "p99"} {
			b.atMost(what+" over the library's", ratio[i], handoverAtMost[i])
		}
	}
	return nil
}

// writes times as many writes as a turn has handovers, as far apart.
func (b *bench) writes(etcd *clientv3.Client) ([]time.Duration, error) {
	var took []time.Duration
	for end := time.Now().Add(b.scale.atMost); len(took) < b.scale.handovers && time.Now().Before(end); {
		began := time.Now()
		if _, err := etcd.Put(b.ctx, "/alone", "x"); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		time.Sleep(hold)
	}
	return took, nil
}

// writeBeside puts some keys a second until the returned function is called.
func (b *bench) writeBeside(etcd *clientv3.Client, perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	var all sync.WaitGroup
	if perSecond > 0 {
		all.Go(func() {
			tick := time.NewTicker(time.Second / time.Duration(perSecond))
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-tick.C:
					all.Go(func() { _, _ = etcd.Put(ctx, fmt.Sprint("/beside/", i%1000), "x") })
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}
