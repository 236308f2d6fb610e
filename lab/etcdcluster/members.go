package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// patience bounds what one change of a member may take. etcd itself gives its
// clients' streams several seconds before it closes.
const patience = 30 * time.Second

var errClosed = errors.New("etcdcluster: the cluster is closed")

// spawn starts member i's process and points its gates at it.
func (c *Cluster) spawn(ctx context.Context, i int) error {
	n := c.members[i]
	p, err := spawn(ctx, c.settings(i), func(pid int) { c.set(n, pid, nil) })
	if err != nil {
		c.set(n, 0, nil)
		return err
	}
	c.set(n, p.cmd.Process.Pid, p)
	n.peers.aim(p.report.Peer)
	n.client.aim(p.report.Client)
	for _, d := range c.allDoors() {
		d.fronts[i].aim(p.report.Client)
	}
	return nil
}

func (c *Cluster) set(n *node, pid int, p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.pid, n.proc = pid, p
}

func (c *Cluster) process(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i].proc
}

// end takes member i down.
func (c *Cluster) end(i int, how func(*process) error) error {
	p := c.process(i)
	if p == nil {
		return nil
	}
	err := how(p)
	n := c.members[i]
	for _, f := range append([]*front{n.peers, n.client}, c.frontsOf(i)...) {
		f.aim("")
	}
	c.set(n, 0, nil)
	return err
}

// Kill ends member i as kill -9 does, and waits until it is gone.
func (c *Cluster) Kill(i int) error {
	return c.change(func() error { return c.end(i, (*process).kill) })
}

// Shutdown ends member i gracefully, as a service manager does.
func (c *Cluster) Shutdown(i int) error {
	return c.change(func() error {
		return c.end(i, func(p *process) error { return p.close(patience) })
	})
}

// Stop freezes member i (SIGSTOP) and returns when it stands still.
func (c *Cluster) Stop(i int) error {
	return c.change(func() error {
		p := c.process(i)
		if p == nil {
			return fmt.Errorf("etcdcluster: %s is down", c.members[i].name)
		}
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return poll(ctx, time.Millisecond, func() error {
			if p.gone() || isStopped(p.cmd.Process.Pid) {
				return nil
			}
			return fmt.Errorf("etcdcluster: %s does not stop", c.members[i].name)
		})
	})
}

// Cont lets member i go on after Stop.
func (c *Cluster) Cont(i int) error {
	return c.change(func() error {
		if p := c.process(i); p != nil {
			return p.signal(syscall.SIGCONT)
		}
		return fmt.Errorf("etcdcluster: %s is down", c.members[i].name)
	})
}

// Restart starts member i again on its data, after ending it gracefully if it
// runs. It returns when the member serves requests, so the others have to be
// able to elect a leader with it.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	err := c.change(func() error {
		if err := c.end(i, func(p *process) error { return p.close(patience) }); err != nil {
			return err
		}
		return c.spawn(ctx, i)
	})
	if err != nil {
		return err
	}
	return poll(ctx, pollEvery, func() error {
		s, err := c.Status(ctx, i)
		return errors.Join(err, notReady(i, s))
	})
}

func (c *Cluster) change(f func() error) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.closed {
		return errClosed
	}
	return f()
}

const pollEvery = 5 * time.Millisecond

// poll repeats f until it returns nil; when ctx ends first, its last error.
func poll(ctx context.Context, every time.Duration, f func() error) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-t.C:
		}
	}
}

func notReady(i int, s Status) error {
	if !s.Ready || s.Leader == 0 {
		return fmt.Errorf("etcdcluster: m%d is not ready (leader %x)", i, s.Leader)
	}
	return nil
}
