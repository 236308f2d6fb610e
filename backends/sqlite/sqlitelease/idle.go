package sqlitelease

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// How a name that nobody wants any more is forgotten. Tokens grow all the same:
// they come from one counter.
const (
	idleFor    = time.Hour
	pruneEvery = 64 // grants
	pruneSpan  = 256
)

// pruneSometimes looks at a stretch of names now and then, after the answer was
// decided: bounded work, and nothing that a holder waits for.
func (q *queue) pruneSometimes(t fence.Token) {
	if t == 0 || t%pruneEvery != 0 {
		return
	}
	q.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tick)
		defer cancel()
		_ = q.a.submit(ctx, &job{soft: true, run: q.forgetIdle}) // there is always a next time
	})
}

// forgetIdle goes on where it stopped the last time.
func (q *queue) forgetIdle(c *conn, now authority.Instant) error {
	var idle []string
	seen, last := 0, ""
	err := c.each(func(s *sqlite3.Stmt) {
		seen, last = seen+1, s.ColumnText(0)
		if s.ColumnBool(1) {
			idle = append(idle, last)
		}
	}, `SELECT name, deadline < ?3 AND NOT EXISTS (SELECT 1 FROM waiters w WHERE w.name = leases.name)
		FROM leases WHERE name > ?1 ORDER BY name LIMIT ?2`, q.pruned, pruneSpan, int64(now.Add(-idleFor)))
	if err != nil {
		return err
	}
	for _, name := range idle {
		if err := c.exec(`DELETE FROM leases WHERE name = ?`, name); err != nil {
			return err
		}
	}
	if q.pruned = last; seen < pruneSpan {
		q.pruned = "" // from the start again
	}
	return nil
}
