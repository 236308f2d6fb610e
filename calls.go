package stint

import (
	"context"
	"sync"
	"time"
)

// maxCalls bounds the requests to the authority that are under way at once, and
// maxAcquires those among them that can wait: a flood of acquires must not keep
// the renewals of leases that are held.
const (
	maxCalls    = 64
	maxAcquires = 48
)

// calls runs requests on goroutines of its own: a few for many, ended when idle.
type calls struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	urgent   []func() // renewals and releases
	patient  []func()
	workers  int
	patients int // workers that run a patient job
}

func (c *calls) init() { c.ctx, c.cancel = context.WithCancel(context.Background()) }

// run runs job on a goroutine of its own.
func (c *calls) run(job func()) { c.group.Go(job) }

// queue runs job as soon as fewer than maxCalls are under way, an urgent one
// before all others.
func (c *calls) queue(job func(), urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if urgent {
		c.urgent = append(c.urgent, job)
	} else {
		c.patient = append(c.patient, job)
	}
	if c.workers < maxCalls {
		c.workers++
		c.group.Go(c.work)
	}
}

func (c *calls) work() {
	for {
		job, patient := c.next()
		if job == nil {
			return
		}
		job()
		if patient {
			c.mu.Lock()
			c.patients--
			c.mu.Unlock()
		}
	}
}

// next takes a job, or counts the worker out.
func (c *calls) next() (job func(), patient bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	take := func(queue *[]func()) func() {
		job := (*queue)[0]
		(*queue)[0] = nil
		*queue = (*queue)[1:]
		return job
	}
	switch {
	case len(c.urgent) > 0:
		return take(&c.urgent), false
	case len(c.patient) > 0 && c.patients < maxAcquires:
		c.patients++
		return take(&c.patient), true
	}
	c.workers--
	return nil, false
}

// end cancels what is under way and waits for it, at most for a time: an
// authority that does not listen to contexts must not hang its caller. It
// reports whether all of it has ended.
func (c *calls) end(within time.Duration) bool {
	c.cancel()
	ended := make(chan struct{})
	go func() {
		c.group.Wait()
		close(ended)
	}()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-ended:
		return true
	case <-timeout.C:
		return false
	}
}
