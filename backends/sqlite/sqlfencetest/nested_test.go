package sqlfencetest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

func TestACallInsideInTxThatWouldWaitForItselfIsRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	c, other := raise(t, s, job, grant(7, "a")), raise(t, s, "other", grant(8, "b"))
	second, err := sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite})
	must(t, err)
	ctx := context.Background() // it would wait for ever
	none := func(*sql.Tx) error { t.Error("it ran"); return nil }
	must(t, s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error {
		_, raised := s.f.Raise(ctx, "third", grant(9, "c"))
		_, settled := s.f.Settle(ctx, c)
		for call, err := range map[string]error{
			"same claim":    s.f.InTx(ctx, c, nil, none),
			"handed over":   s.f.InTx(ctx, fence.Claim{Name: c.Name, Grant: c.Grant}, nil, none),
			"another claim": s.f.InTx(ctx, other, nil, none),
			"another Fence": second.InTx(ctx, other, nil, none),
			"finish":        s.f.Finish(ctx, c),
			"finish other":  s.f.Finish(ctx, other),
			"raise":         raised,
			"settle":        settled,
			"requeue":       s.f.Requeue(ctx, running(other)),
			"migrate":       s.f.Migrate(ctx),
		} {
			if wants(t, err, sqlfence.ErrNested); !contains(err, "FinishTx") {
				t.Errorf("%s: %v", call, err)
			}
		}
		return insert(tx, "k")
	}))
	must(t, s.write(ctx, other, "k", "v", nil))
	must(t, s.f.Finish(ctx, c))
	if n := s.count(t, "k"); n != 2 {
		t.Fatalf("written %d times", n)
	}
}

func TestInTxOfAnotherDatabaseMayBeNested(t *testing.T) {
	t.Parallel()
	a, b := fresh(t, modes[0].dsn(t), nil), fresh(t, modes[0].dsn(t), nil)
	ca, cb := raise(t, a, job, grant(7, "a")), raise(t, b, job, grant(8, "b"))
	must(t, a.f.InTx(t.Context(), ca, nil, func(tx *sql.Tx) error {
		must(t, b.write(t.Context(), cb, "k", "v", nil))
		return insert(tx, "k")
	}))
	if a.count(t, "k") != 1 || b.count(t, "k") != 1 {
		t.Fatal("not written")
	}
}

func TestAFunctionThatPanicsOrLeavesIsNoLongerInside(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	c := raise(t, s, job, grant(7, "a"))
	func() {
		defer func() { _ = recover() }()
		_ = s.f.InTx(t.Context(), c, nil, func(*sql.Tx) error { panic("on purpose") })
	}()
	must(t, s.write(t.Context(), c, "k", "v", nil))
	must(t, s.f.Finish(t.Context(), c))
}

// Another goroutine's transaction is waited for, as ever.
func TestAnotherGoroutineWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	s := fresh(t, modes[0].dsn(t), nil)
	c := raise(t, s, job, grant(7, "a"))
	done, started := make(chan error, 1), make(chan struct{})
	must(t, s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
		go func() {
			close(started)
			done <- s.write(context.Background(), c, "k", "v", nil)
		}()
		<-started
		return insert(tx, "k")
	}))
	must(t, <-done)
	if n := s.count(t, "k"); n != 2 {
		t.Fatalf("written %d times", n)
	}
}
