//go:build !race

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// ttl is the lease length of the cuts, in seconds.
const ttl = 10

// cut is one holder that is cut off from the servers.
type cut struct {
	door    *etcdcluster.Door
	stopped <-chan struct{} // closed when the holder is told to stop
	wait    func(context.Context) error
	close   func()

	alive       bool // when it was cut off
	stop, grant time.Time
}

// cuts compares, for many holders that are cut off at different times, when the
// holder is told to stop with when a rival is let in. All are cut off side by
// side, each behind a door of its own; the rivals come in by the front.
func (b *bench) cuts() error {
	nodes := 3
	if b.scale.turns < full.turns {
		nodes = 1
	}
	c, err := etcdcluster.Start(b.ctx, nodes, etcdcluster.Options{Heartbeat: 100 * time.Millisecond, Election: time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	b.title("a holder is told to stop before its rival is let in, %d cuts each, leases of %d s, %d nodes", b.scale.cuts, ttl, nodes)
	b.row("answers late by", "%-34s %s", "library's Session", "stint")
	for _, delay := range []time.Duration{0, 300 * time.Millisecond, 800 * time.Millisecond} {
		var all [2][]*cut
		var errs [2]error
		var both sync.WaitGroup
		for i, side := range []cutter{libraryCuts, ourCuts} {
			both.Go(func() { all[i], errs[i] = b.cutAll(c, side, delay) })
		}
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		b.row(delay.String(), "%-34s %s", tell(all[0]), tell(all[1]))
		if delay > 0 {
			b.atLeast("stint stopped first, of all", float64(first(all[1]))/float64(b.scale.cuts), 1)
		}
	}
	return nil
}

// first counts the holders that held until they were cut off, and stopped first.
func first(all []*cut) (n int) {
	for _, c := range all {
		if c.alive && !c.stop.After(c.grant) {
			n++
		}
	}
	return n
}

func tell(all []*cut) string {
	var latest time.Duration
	dead := 0
	for _, c := range all {
		latest = max(latest, c.stop.Sub(c.grant))
		if !c.alive {
			dead++
		}
	}
	s := fmt.Sprintf("%d of %d", first(all), len(all))
	if latest > 0 {
		s += fmt.Sprintf(", late by up to %v", latest.Round(time.Millisecond))
	}
	if dead > 0 {
		s += fmt.Sprintf(", %d ended before", dead)
	}
	return s
}

// cutAll makes the holders and rivals of one side, and cuts the holders off.
func (b *bench) cutAll(c *etcdcluster.Cluster, side cutter, delay time.Duration) ([]*cut, error) {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	all := make([]*cut, b.scale.cuts)
	front, err := side(c.Endpoints())
	if err != nil {
		return nil, err
	}
	defer front.close()
	err = many(len(all), func(i int) error {
		door, err := c.Door()
		if err != nil {
			return err
		}
		s, err := side(door.Endpoints())
		if err != nil {
			return err
		}
		name := fmt.Sprintf("cut/%v/%d", delay, i)
		all[i] = &cut{door: door, close: s.close, wait: func(ctx context.Context) error { _, err := front.take(ctx, name); return err }}
		all[i].stopped, err = s.take(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	errs := make([]error, len(all))
	for i, one := range all {
		one.door.Each(func(l *etcdcluster.Link) { l.Delay(delay, etcdcluster.Back) })
		// One renewal at least with the delay, then spread over the time between two.
		after := ttl*time.Second + time.Duration(i)*3*time.Second/time.Duration(len(all))
		group.Go(func() { errs[i] = one.run(ctx, after) })
	}
	group.Wait()
	for _, one := range all {
		one.door.Each(func(l *etcdcluster.Link) { l.Delay(0); l.Open(); l.Reset() })
		one.close()
	}
	return all, errors.Join(errs...)
}

// run cuts the holder off after a time, and notes what happens when.
func (c *cut) run(ctx context.Context, after time.Duration) error {
	granted := make(chan error, 1)
	go func() {
		err := c.wait(ctx)
		c.grant = time.Now()
		granted <- err
	}()
	stopped := make(chan struct{})
	go func() {
		<-c.stopped
		c.stop = time.Now()
		close(stopped)
	}()
	select {
	case <-time.After(after):
		c.alive = true
	case <-stopped:
	case <-ctx.Done():
	}
	c.door.Each(func(l *etcdcluster.Link) { l.Cut() })
	if err := <-granted; err != nil {
		return fmt.Errorf("the rival was not let in: %w", err)
	}
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return errors.New("a holder that was cut off was never told to stop")
	}
}

// cutSide is one client, of a holder or of all rivals.
type cutSide struct {
	take  func(ctx context.Context, name string) (stopped <-chan struct{}, err error)
	close func()
}

type cutter func(endpoints []string) (*cutSide, error)

func ourCuts(endpoints []string) (*cutSide, error) {
	us, err := newOurs(endpoints, stint.Options{TTL: ttl * time.Second})
	if err != nil {
		return nil, err
	}
	take := func(ctx context.Context, name string) (<-chan struct{}, error) {
		l, err := us.client.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return l.Context().Done(), nil
	}
	return &cutSide{take: take, close: func() { _ = us.close() }}, nil
}

// libraryCuts has a Session for each lock, as it has to be.
func libraryCuts(endpoints []string) (*cutSide, error) {
	etcd, err := client(endpoints...)
	if err != nil {
		return nil, err
	}
	take := func(ctx context.Context, name string) (<-chan struct{}, error) {
		s, err := concurrency.NewSession(etcd, concurrency.WithTTL(ttl))
		if err != nil {
			return nil, err
		}
		return s.Done(), concurrency.NewMutex(s, "/"+name).Lock(ctx)
	}
	return &cutSide{take: take, close: func() { _ = etcd.Close() }}, nil
}
