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
	// maxResting workers wait for more. A fresh goroutine has a small stack, and
	// growing it was a seventh of what a lone acquire and release cost the client.
	maxResting = 8
)

// kind is how long a request may wait for others.
type kind uint8

const (
	urgent  kind = iota // renewals and releases
	patient             //
	lasting             // as long as the waiting does: never waits, and is not counted
	started             // no goroutine waits for its answer: the same
)

// job is a request.
type job struct {
	kind kind
	run  func()
}

// calls runs requests on goroutines of its own: a few for many, and fewer when
// idle.
type calls struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	waiting  [2][]job // urgent and patient ones
	workers  int
	patients int // workers that run a patient job
	resting  int // idle workers, beside those whose job is in handed
	handed   chan job
}

func (c *calls) init() {
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.handed = make(chan job, maxResting)
}

// queue runs j as soon as fewer than maxCalls are under way, an urgent one
// before all others.
func (c *calls) queue(j job) {
	switch j.kind {
	case lasting:
		c.group.Go(j.run)
		return
	case started:
		j.run()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers < maxCalls && (j.kind == urgent || c.patients < maxAcquires) {
		c.workers++
		if j.kind == patient {
			c.patients++
		}
		if c.resting > 0 {
			c.resting--
			c.handed <- j // there is room: it is as large as there are idle ones
			return
		}
		c.group.Add(1)
		go c.work(j)
		return
	}
	c.waiting[j.kind] = append(c.waiting[j.kind], j)
}

// work runs j, and then what waits.
func (c *calls) work(j job) {
	defer c.group.Done()
	for ok := true; ok; {
		j.run()
		if j, ok = c.next(j.kind); !ok {
			j, ok = c.rest()
		}
	}
}

// rest waits for a job, if few do so already and until all ends. A worker that is
// counted out by next is counted in by queue.
func (c *calls) rest() (j job, ok bool) {
	c.mu.Lock()
	if c.resting+len(c.handed) >= maxResting || c.ctx.Err() != nil {
		c.mu.Unlock()
		return job{}, false
	}
	c.resting++
	c.mu.Unlock()
	select {
	case j = <-c.handed:
		return j, true
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case j = <-c.handed: // it was handed over before: as many wait as are resting or handed
		return j, true
	default:
		c.resting--
		return job{}, false
	}
}

// next takes a job after one of a kind, or counts the worker out.
func (c *calls) next(after kind) (j job, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if after == patient {
		c.patients--
	}
	switch {
	case len(c.waiting[urgent]) > 0:
		j = c.take(urgent)
	case len(c.waiting[patient]) > 0 && c.patients < maxAcquires:
		c.patients++
		j = c.take(patient)
	default:
		c.workers--
		return job{}, false
	}
	return j, true
}

func (c *calls) take(k kind) job {
	queue := c.waiting[k]
	j := queue[0]
	queue[0] = job{}
	c.waiting[k] = queue[1:]
	return j
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
