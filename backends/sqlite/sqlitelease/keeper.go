package sqlitelease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
)

// keep starts what runs as long as the handle is open, once somebody waits:
// the keeper, which looks at the lines; the heart, whose beat says that this
// process is alive; and the reader of the pipe.
func (q *queue) keep() {
	q.listen()
	q.wg.Go(func() { q.every(q.glance) })
	q.wg.Go(q.heart)
}

// every calls f now, when poked, and after the pause that f returns.
func (q *queue) every(f func() time.Duration) {
	for {
		t := time.NewTimer(f())
		select {
		case <-q.poke:
		case <-t.C:
		case <-q.a.close:
			t.Stop()
			return
		}
		t.Stop()
	}
}

// glance wakes those of our waiters whose turn it is, or who have lost their
// place, and returns when to look again: at the latest when a lease ends that
// one of ours is next to.
func (q *queue) glance() time.Duration {
	if !q.anybody() {
		return time.Hour // nobody waits: who comes will poke
	}
	pause := tick*4/5 + rand.N(tick*2/5)
	if !q.a.paced {
		pause = 5 * time.Millisecond
	}
	seen := map[spot]bool{}
	var free []spot
	now := q.a.clock.Now()
	ctx, cancel := context.WithTimeout(context.Background(), tick)
	defer cancel()
	known := q.spots() // before the look: who comes later is not missing
	err := q.a.reader.read(ctx, func(c *conn) error {
		return c.each(func(s *sqlite3.Stmt) {
			at := spot{s.ColumnText(0), s.ColumnText(1)}
			seen[at] = true
			first, left := s.ColumnBool(2), authority.Instant(s.ColumnInt64(3)).Sub(now)
			switch {
			case first && left <= 0:
				free = append(free, at)
			case first:
				pause = min(pause, left)
			}
		}, `SELECT w.name, w.waiter,
				NOT EXISTS (SELECT 1 FROM waiters o JOIN handles h ON h.id = o.handle WHERE o.name = w.name AND o.seq < w.seq AND h.alive > ?2),
				coalesce((SELECT deadline FROM leases l WHERE l.name = w.name AND l.state <> 1), 0)
			FROM waiters w WHERE w.handle = ?1`, q.id, alive())
	})
	if err != nil {
		return pause // the next look finds what this one missed
	}
	q.hint(free, known, seen)
	return pause
}

func (q *queue) spots() map[spot]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make(map[spot]bool, len(q.waiters))
	for at := range q.waiters {
		all[at] = true
	}
	return all
}

func (q *queue) hint(free []spot, known, seen map[spot]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range free {
		if w := q.waiters[at]; w != nil {
			w.hint()
		}
	}
	for at := range known {
		if w := q.waiters[at]; w != nil && !seen[at] {
			delete(q.waiters, at)
			w.hint()
		}
	}
}

// anybody says whether one of ours waits.
func (q *queue) anybody() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters) > 0
}

// heart beats while anybody waits.
func (q *queue) heart() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			q.beat()
		case <-q.a.close:
			return
		}
	}
}

// beat says that this process is alive, gives up the places of callers that
// were not heard of, and those of processes that have long been silent.
func (q *queue) beat() {
	lost, left := q.lost()
	if left+len(lost) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), aliveFor)
	defer cancel()
	// A beat that fails is one of four.
	_ = q.a.submit(ctx, &job{soft: true, run: func(c *conn, _ authority.Instant) error {
		for _, at := range lost {
			if err := c.exec(`DELETE FROM waiters WHERE name = ? AND waiter = ? AND handle = ?`, at.name, at.waiter, q.id); err != nil {
				return err
			}
		}
		if err := c.live(q.id); err != nil {
			return err
		}
		// A stopped process that goes on within this time has kept its place.
		old := alive() - int64(10*aliveFor)
		if err := c.exec(`DELETE FROM waiters WHERE handle IN (SELECT id FROM handles WHERE alive < ?)`, old); err != nil {
			return err
		}
		return c.exec(`DELETE FROM handles WHERE alive < ?`, old)
	}})
}

// lost takes out our waiters that are outside of Wait for too long.
func (q *queue) lost() (lost []spot, left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, w := range q.waiters {
		if w.waiting == 0 && time.Since(w.seen) > aliveFor {
			delete(q.waiters, at)
			lost = append(lost, at)
		}
	}
	return lost, len(q.waiters)
}
