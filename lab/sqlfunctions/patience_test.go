package sqlfunctions

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// heldUp is how long a raise takes while somebody holds the row.
func (s *store) heldUp(t *testing.T, next *store, g fence.Grant, patience time.Duration) time.Duration {
	t.Helper()
	tx := s.hold(t, s.db)
	begun := time.Now()
	_, err := next.f.Raise(context.Background(), job, g)
	took := time.Since(begun)
	must(t, err)
	if took < patience {
		t.Errorf("a raise with a lock timeout of %v ended the session after %v", patience, took)
	}
	if err := tx.Commit(); err == nil {
		t.Error("the session that held the row was not ended")
	}
	return took
}

// MariaDB counts a wait for a lock in whole seconds, and a session may have a
// bound of its own on how long a statement takes, shorter than the lock timeout.
func TestALockTimeoutIsKeptToTheFractionOfASecond(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{300 * time.Millisecond, 1200 * time.Millisecond, time.Second} {
		t.Run(patience.String(), func(t *testing.T) {
			t.Parallel()
			kinds(t, func(t *testing.T, s *store) {
				own := ""
				if !s.postgres() {
					own = "max_statement_time=0.1"
				}
				next := with(t, s.at, s.at.At(s.at.Addr(), own), sqlfence.Options{LockTimeout: patience})
				least := time.Hour // of several: a machine may have other things to do
				for token := fence.Token(7); token < 22 && least > patience+time.Second; token += 5 {
					s.raise(t, grant(token, "a"))
					least = min(least, s.heldUp(t, next, grant(token+1, "b"), patience))
				}
				if least > patience+time.Second {
					t.Errorf("a raise with a lock timeout of %v ended the session after %v at the least", patience, least)
				}
			})
		})
	}
}
