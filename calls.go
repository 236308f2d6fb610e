package stint

import (
	"context"
	"sync"
)

// maxCalls bounds the requests to the authority that are under way at once.
const maxCalls = 64

// calls runs requests on goroutines of its own: a few for many, ended when idle.
type calls struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	jobs    []func()
	workers int
}

func (c *calls) init() { c.ctx, c.cancel = context.WithCancel(context.Background()) }

// run runs job on a goroutine of its own.
func (c *calls) run(job func()) { c.group.Go(job) }

// queue runs job as soon as fewer than maxCalls are under way.
func (c *calls) queue(job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, job)
	if c.workers < maxCalls {
		c.workers++
		c.group.Go(c.work)
	}
}

func (c *calls) work() {
	for {
		c.mu.Lock()
		if len(c.jobs) == 0 {
			c.workers--
			c.mu.Unlock()
			return
		}
		job := c.jobs[0]
		c.jobs[0] = nil
		c.jobs = c.jobs[1:]
		c.mu.Unlock()
		job()
	}
}

// end cancels what is under way and waits for it.
func (c *calls) end() {
	c.cancel()
	c.group.Wait()
}
