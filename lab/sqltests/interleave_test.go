package sqltests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

// Two holders of one name and a sweeper send their requests to the database in
// an order that chance picks, request by request.
func TestRandomInterleavingsOfTwoHoldersAndASweeperKeepTheRules(t *testing.T) {
	t.Parallel()
	each(t, databases, func(t *testing.T, g target) {
		p := g.at(t)
		p.Lock = 20 * time.Second // who holds a lock waits for its turn here, and does not hang
		p.fresh(t, nil)
		const workers = 4
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var todo atomic.Int64
		todo.Store(int64(trials(80, 10_000)))
		var all sync.WaitGroup
		for w := range workers {
			l := newLine(t, p, rand.New(rand.NewPCG(seed, uint64(w))))
			all.Go(func() {
				for i := 0; todo.Add(-1) >= 0 && !t.Failed(); i++ {
					if err := l.run(fmt.Sprintf("job-%d-%d", w, i)); err != nil {
						t.Errorf("worker %d, interleaving %d: %v", w, i, err)
					}
				}
			})
		}
		all.Wait()
	})
}

// line lets one request of several actors go at a time.
type line struct {
	stores  []*store // one for each actor
	clean   *store
	chance  *rand.Rand
	arrived chan int         // an actor stands before a request
	ended   chan int         // an actor is through
	goOn    [3]chan struct{} // the word for each
	order   []byte           // who went, for people
}

func newLine(t *testing.T, p place, chance *rand.Rand) *line {
	l := &line{clean: p.reopen(t, nil), chance: chance, arrived: make(chan int, 3), ended: make(chan int, 3)}
	for i := range l.goOn {
		l.goOn[i] = make(chan struct{})
		l.stores = append(l.stores, p.reopen(t, func(r faultsql.Request, w faultsql.When) error {
			if w == faultsql.Before && r.Op != faultsql.Connect {
				l.arrived <- i
				<-l.goOn[i]
			}
			return nil
		}))
	}
	return l
}

// stuck is how long an actor may be on its way before others go: most likely it
// waits for a lock that one of them has.
const stuck = 2 * time.Millisecond

// schedule lets the actors go until all are through.
func (l *line) schedule() {
	waiting, left, onWay := []int{}, len(l.goOn), len(l.goOn)
	timer := time.NewTimer(stuck)
	defer timer.Stop()
	for left > 0 {
		var late <-chan time.Time
		if len(waiting) > 0 {
			timer.Reset(stuck)
			late = timer.C
		}
		if onWay > 0 {
			select {
			case i := <-l.arrived:
				waiting, onWay = append(waiting, i), onWay-1
				continue
			case <-l.ended:
				left, onWay = left-1, onWay-1
				continue
			case <-late:
			}
		}
		if len(waiting) == 0 {
			continue
		}
		k := l.chance.IntN(len(waiting))
		i := waiting[k]
		waiting = append(waiting[:k], waiting[k+1:]...)
		l.order = append(l.order, "ABS"[i])
		onWay++
		l.goOn[i] <- struct{}{}
	}
}

// history is what the actors were told.
type history struct {
	a, b fence.Claim
	errs [3]error
}

// run plays one interleaving and checks the rules.
func (l *line) run(name string) error {
	var h history
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l.order = l.order[:0]
	actors := []func() error{
		func() (err error) { h.a, err = l.stores[0].fullJob(ctx, name, grant(7, "a")); return err },
		func() (err error) { h.b, err = l.stores[1].fullJob(ctx, name, grant(12, "b")); return err },
		func() error { return l.stores[2].sweep(ctx, name) },
	}
	for i, act := range actors {
		go func() {
			h.errs[i] = act()
			l.ended <- i
		}()
	}
	l.schedule()
	if err := l.clean.keepsTheRules(ctx, name, h); err != nil {
		return fmt.Errorf("%w\n%s: A %v, B %v, sweeper %v\norder %s", err, name, h.errs[0], h.errs[1], h.errs[2], l.order)
	}
	return nil
}

// fullJob is what a holder does: raise, read how far the work came, write the
// rest, finish.
func (s *store) fullJob(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	c, err := s.f.Raise(ctx, name, g)
	if err != nil {
		return c, err
	}
	have, err := s.howMany(ctx, "WHERE k = ?", name)
	if err != nil {
		return c, err
	}
	for i := have; i < chunks; {
		err := s.write(ctx, c, name, chunk(i), nil)
		if err == nil {
			i++
		} else if !s.f.Retryable(err) {
			return c, err
		}
	}
	return c, s.f.Finish(ctx, c)
}

const chunks = 2

func chunk(i int) string { return fmt.Sprint("chunk", i) }

// sweep gives the claim back twice, as if its holder were dead: a sweeper may be
// wrong about that, and no harm is done.
func (s *store) sweep(ctx context.Context, name string) error {
	for range 2 {
		r, err := s.f.Row(ctx, name)
		if errors.Is(err, fence.ErrNoFence) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.f.Requeue(ctx, r); err != nil && !errors.Is(err, fence.ErrChanged) {
			return err
		}
	}
	return nil
}

// keepsTheRules looks at what the two holders left.
func (s *store) keepsTheRules(ctx context.Context, name string, h history) error {
	n, byA := 0, int64(0)
	err := s.reading(ctx, func() (err error) {
		n, byA, err = s.written(ctx, name)
		return err
	})
	row, rowErr := s.f.Row(ctx, name)
	switch {
	case err != nil || rowErr != nil:
		return errors.Join(err, rowErr)
	case n != chunks:
		return fmt.Errorf("%d of %d chunks", n, chunks)
	case h.errs[0] != nil && !errors.Is(h.errs[0], fence.ErrStale):
		return errors.New("A was told something else than that it is stale")
	case h.errs[1] != nil || h.errs[2] != nil:
		return errors.New("B or the sweeper failed")
	case h.b.Previous.Seq != byA:
		return fmt.Errorf("B saw %d writes of A at its raise, and there are %d: one landed after it", h.b.Previous.Seq, byA)
	case h.errs[0] == nil && (byA != chunks || h.b.Previous.Fence != 7):
		return fmt.Errorf("A finished its job, and wrote %d chunks; B raised after %d", byA, h.b.Previous.Fence)
	case row.Fence != 12 || row.Nonce != "b" || row.Owner != 12 || row.State != fence.Done || row.Seq != chunks:
		return fmt.Errorf("the row is %+v", row)
	}
	return nil
}

// written tells how many chunks of name are there, how many of them by A; they
// have to be in order.
func (s *store) written(ctx context.Context, name string) (n int, byA int64, err error) {
	rows, err := s.db.QueryContext(ctx, s.q("SELECT v, token FROM {d} WHERE k = ? ORDER BY id"), name)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	var last fence.Token
	for ; rows.Next(); n++ {
		var v string
		var token fence.Token
		if err := rows.Scan(&v, &token); err != nil {
			return 0, 0, err
		}
		if v != chunk(n) || token < last {
			return 0, 0, fmt.Errorf("row %d is %s by %d, after one by %d", n, v, token, last)
		}
		if last = token; token == 7 {
			byA++
		}
	}
	return n, byA, rows.Err()
}
