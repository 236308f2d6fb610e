package sqlfencetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/sqlite/sqlitelease"
	"github.com/stint-dev/stint/fence"
)

// A sweeper gives back the jobs whose holder is gone. It works under a lease of its
// own, so that there is one, and another when that one dies.
const (
	sweeping      = "sweeper"
	sweepLease    = 4 * time.Second
	sweepInterval = 50 * time.Millisecond
)

// sweeper is what one needs: the fence tells who runs, the authority who may.
type sweeper struct {
	*store
	authority *sqlitelease.Authority
	before    map[string]fence.Row // orphans of the round before
}

// sweep takes the lease as soon as it is free, and then sweeps until done says that
// it is enough. It renews in every round.
func (s *sweeper) sweep(ctx context.Context, nonce string, done func() bool) error {
	r := authority.Request{Name: sweeping, Length: sweepLease, Nonce: nonce}
	g, err := s.authority.Acquire(ctx, r)
	for errors.Is(err, authority.ErrHeld) && ctx.Err() == nil {
		time.Sleep(sweepInterval)
		g, err = s.authority.Acquire(ctx, r)
	}
	for err == nil && !done() {
		if err = s.round(ctx); err != nil {
			break
		}
		time.Sleep(sweepInterval)
		_, err = s.authority.Renew(ctx, g)
	}
	return err
}

// round gives back what was an orphan in the last round already. A row that has
// changed since is left alone by Requeue.
func (s *sweeper) round(ctx context.Context) error {
	seen := map[string]fence.Row{}
	for r, err := range s.f.Claims(ctx) {
		if err != nil {
			return err
		}
		state, err := s.authority.Inspect(ctx, r.Name)
		if err != nil {
			return err
		}
		if state.Held && state.Grant.Token == r.Owner {
			continue // however long it runs
		}
		seen[r.Name] = r
		if _, again := s.before[r.Name]; !again {
			continue
		}
		if err := s.f.Requeue(ctx, r); err != nil && !errors.Is(err, fence.ErrChanged) {
			return err
		}
	}
	s.before = seen
	return nil
}

// sweepAndDie is the first sweeper, another process: it is killed when it has seen
// the orphan, and before it gave it back.
func sweepAndDie(dsn, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	st, err := openStore(dsn, nil)
	if err != nil {
		return err
	}
	a, err := sqlitelease.Open(ctx, path, sqlitelease.Options{})
	if err != nil {
		return err
	}
	s := &sweeper{store: st, authority: a}
	return s.sweep(ctx, "first", func() bool {
		if len(s.before) > 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return false
	})
}

func TestASweeperThatIsKilledIsSucceededAndSparesWhoLives(t *testing.T) {
	dsn, path := modes[1].dsn(t), filepath.Join(t.TempDir(), "leases.db")
	st := fresh(t, dsn, nil)
	a, err := sqlitelease.Open(t.Context(), path, sqlitelease.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	// One job runs, and goes on; the holder of the other is gone.
	lives, err := a.Acquire(ctx, authority.Request{Name: "lives", Length: time.Minute, Nonce: "lives"})
	must(t, err)
	gone, err := a.Acquire(ctx, authority.Request{Name: job, Length: time.Minute, Nonce: "gone"})
	must(t, err)
	for _, g := range []authority.Grant{lives, gone} {
		_, err := st.f.Raise(ctx, g.Name, g.Grant)
		must(t, err)
	}
	must(t, a.Release(ctx, gone))

	first := command("sweep", dsn, path)
	if err := first.Run(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the first sweeper ended: %v", err)
	}
	if r, err := st.f.Row(ctx, job); err != nil || r.State != fence.Running {
		t.Fatalf("the first sweeper has done its work already: %+v, %v", r, err)
	}
	if state, err := a.Inspect(ctx, sweeping); err != nil || state.Grant.Nonce != "first" {
		t.Fatalf("the first sweeper had no lease: %+v, %v", state, err)
	}
	second, rounds := &sweeper{store: st, authority: a}, 0
	must(t, second.sweep(ctx, "second", func() bool {
		rounds++
		r, err := st.f.Row(ctx, job)
		must(t, err)
		return r.State == fence.Queued && rounds > 10
	}))
	if r, err := st.f.Row(ctx, job); err != nil || r.State != fence.Queued || r.Fence != gone.Token {
		t.Errorf("the orphan is %+v, %v", r, err)
	}
	if r, err := st.f.Row(ctx, "lives"); err != nil || r.State != fence.Running || r.Owner != lives.Token {
		t.Errorf("the job that runs is %+v, %v", r, err)
	}
}
