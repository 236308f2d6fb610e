package sqlitelease

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
)

// The line of a name is kept in the file. A waiter sleeps in Wait; the keeper
// of its process wakes it. Who releases a name rings the pipe of the process
// whose waiter is next: exactly one process, and in it one waiter. The pipe is
// only a hint. Whatever is lost is found by the keeper's own look every tick.
const (
	tick     = 500 * time.Millisecond // between two looks, and two signs of life
	aliveFor = 2 * time.Second        // without a sign of life a process loses its turns
)

// queue is this process's part of the lines.
type queue struct {
	a    *Authority
	id   string // of this handle
	pipe string
	poke chan struct{} // to the keeper: look now
	once sync.Once
	wg   sync.WaitGroup

	pruned string // the last name that was looked at for idleness; the writer's

	mu      sync.Mutex
	waiters map[spot]*waiter
}

type spot struct{ name, waiter string }

// waiter is one of ours.
type waiter struct {
	wake    chan struct{} // holds one hint
	waiting int           // calls to Wait in flight
	seen    time.Time
}

func (q *queue) init(a *Authority) {
	q.a, q.id = a, rand.Text()
	q.pipe = filepath.Join(a.path+"-wake", q.id)
	q.poke = make(chan struct{}, 1)
	q.waiters = map[spot]*waiter{}
}

// stop ends the keeper and leaves every line.
func (q *queue) stop() {
	q.wg.Wait()
	q.mu.Lock()
	n := len(q.waiters)
	q.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Best effort: without it the others find out after aliveFor.
	_ = q.a.submit(ctx, &job{soft: true, run: func(c *conn, _ authority.Instant) error { return c.forget(q.id) }})
}

// forget takes a handle and its waiters out of all lines.
func (c *conn) forget(handle string) error {
	if err := c.exec(`DELETE FROM waiters WHERE handle = ?`, handle); err != nil {
		return err
	}
	return c.exec(`DELETE FROM handles WHERE id = ?`, handle)
}

// join puts r into the line, or takes its place over from another handle.
func (q *queue) join(c *conn, r authority.Request) error {
	if err := c.live(q.id); err != nil {
		return err
	}
	return c.exec(`INSERT INTO waiters (name, waiter, handle) VALUES (?, ?, ?) ON CONFLICT (name, waiter) DO UPDATE SET handle = excluded.handle`,
		r.Name, r.Waiter, q.id)
}

// live is a sign of life.
func (c *conn) live(handle string) error {
	return c.exec(`INSERT INTO handles (id, alive) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET alive = excluded.alive`,
		handle, alive()+int64(aliveFor))
}

// first is the handle whose waiter is next, empty if nobody alive is in line.
func (c *conn) first(name string) (handle string, err error) {
	err = c.each(func(s *sqlite3.Stmt) { handle = s.ColumnText(0) },
		`SELECT h.id FROM waiters w JOIN handles h ON h.id = w.handle WHERE w.name = ? AND h.alive > ? ORDER BY w.seq LIMIT 1`, name, alive())
	return handle, err
}

// settle notes, after the commit, that r is in line or no longer is.
func (q *queue) settle(r authority.Request, in bool) {
	at := spot{r.Name, r.Waiter}
	q.mu.Lock()
	w := q.waiters[at]
	switch {
	case !in && w != nil:
		delete(q.waiters, at)
		w.hint()
	case in && w == nil:
		q.waiters[at] = &waiter{wake: make(chan struct{}, 1), seen: time.Now()}
	case in:
		w.seen = time.Now()
	}
	q.mu.Unlock()
	if in {
		q.once.Do(q.keep)
		q.look()
	}
}

func (q *queue) inLine(r authority.Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.waiters[spot{r.Name, r.Waiter}]
	if w != nil {
		w.seen = time.Now()
	}
	return w != nil
}

func (w *waiter) hint() {
	select {
	case w.wake <- struct{}{}:
	default: // there is one already
	}
}

// look asks the keeper to look.
func (q *queue) look() {
	select {
	case q.poke <- struct{}{}:
	default: // it was asked already
	}
}

// Wait implements authority.Queuer.
func (a *Authority) Wait(ctx context.Context, r authority.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Waiter == "" {
		return fmt.Errorf("sqlitelease: %w: Wait needs a Waiter", authority.ErrInvalid)
	}
	leave, err := a.enter()
	if err != nil {
		return err
	}
	defer leave()
	q := &a.queue
	q.mu.Lock()
	w := q.waiters[spot{r.Name, r.Waiter}]
	if w == nil { // it lost its place: a try gives it a new one
		q.mu.Unlock()
		return nil
	}
	w.waiting++
	q.mu.Unlock()
	q.look() // it may be its turn already, without a further hint
	defer func() {
		q.mu.Lock()
		w.waiting--
		w.seen = time.Now()
		q.mu.Unlock()
	}()
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		return nil
	case <-a.close:
		return fmt.Errorf("sqlitelease: %w", authority.ErrClosed)
	}
}

// Leave implements authority.Queuer.
func (a *Authority) Leave(ctx context.Context, r authority.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	leave, err := a.enter()
	if err != nil {
		return err
	}
	defer leave()
	out := new(answer)
	return a.submit(ctx, &job{
		soft: true,
		run: func(c *conn, _ authority.Instant) (err error) {
			*out = answer{}
			_, found, err := c.number(`DELETE FROM waiters WHERE name = ? AND waiter = ? RETURNING 1`, r.Name, r.Waiter)
			if err == nil && found { // it may have been called already
				out.wake, err = c.first(r.Name)
			}
			return err
		},
		then: func() {
			a.queue.settle(r, false)
			a.queue.wake(r.Name, out.wake)
		},
	})
}

// wake rings for the next in line. It is called after the commit.
func (q *queue) wake(name, handle string) {
	switch {
	case handle == "":
	case handle == q.id:
		q.look()
	case ring(filepath.Join(filepath.Dir(q.pipe), handle)):
		// Its process is dead. Not from here: the writer is waiting for us.
		q.a.writer.wg.Go(func() { q.bury(name, handle) })
	}
}

// bury takes a dead process out of all lines and rings for the next.
func (q *queue) bury(name, handle string) {
	ctx, cancel := context.WithTimeout(context.Background(), aliveFor) // by then it is skipped anyway
	defer cancel()
	var next string
	err := q.a.submit(ctx, &job{
		soft: true,
		run: func(c *conn, _ authority.Instant) (err error) {
			if err = c.forget(handle); err == nil {
				next, err = c.first(name)
			}
			return err
		},
		then: func() { q.wake(name, next) },
	})
	if err == nil {
		_ = os.Remove(filepath.Join(filepath.Dir(q.pipe), handle)) // another may have been faster
	}
}
