package sqlfencetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// In a rollback journal an open reader lets everybody write up to COMMIT.
func TestACommitThatReadersHoldUpIsReportedAsNotApplied(t *testing.T) {
	t.Parallel()
	dsn := modes[2].dsn(t)
	clean := fresh(t, dsn, nil)
	_, err := clean.db.Exec("INSERT INTO data (k, v) VALUES ('a', 'v'), ('b', 'v')")
	must(t, err)
	c := raise(t, clean, job, grant(7, "a"))
	refused := make(chan struct{}, 100)
	s := reopen(t, dsn, func(r faultsql.Request, w faultsql.When) error {
		if r.Op == faultsql.Commit && w == faultsql.Before {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
		return nil
	})
	rows, err := clean.db.Query("SELECT k FROM data") // a report that somebody reads
	must(t, err)
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("no rows")
	}
	err = s.write(t.Context(), c, "k", "v", nil)
	wants(t, err, sqlfence.ErrBusy)
	if errors.Is(err, fence.ErrUnknown) || !contains(err, "WAL") || !contains(err, "nothing was written") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	<-refused
	go func() { <-refused; <-refused; cancel() }() // it was tried more than once
	_, err = s.f.Raise(ctx, "other", grant(8, "b"))
	wants(t, err, sqlfence.ErrBusy)
	if errors.Is(err, fence.ErrUnknown) {
		t.Errorf("the error is %v", err)
	}
	for len(refused) > 0 {
		<-refused
	}
	done := make(chan error, 1)
	go func() { done <- s.f.Finish(context.Background(), c) }()
	<-refused
	must(t, rows.Close())
	must(t, <-done)
	c = raise(t, s, job, grant(9, "c"))
	must(t, s.write(t.Context(), c, "k", "v", nil))
	if n := clean.count(t, "k"); n != 1 {
		t.Fatalf("written %d times", n)
	}
}
