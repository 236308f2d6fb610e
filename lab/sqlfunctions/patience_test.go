package sqlfunctions

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence/sqlfence"
)

// MariaDB counts a wait for a lock in whole seconds, and a session may have a
// bound of its own on how long a statement takes, shorter than the lock timeout.
func TestALockTimeoutIsKeptToTheFractionOfASecond(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{300 * time.Millisecond, 1200 * time.Millisecond, time.Second} {
		t.Run(patience.String(), func(t *testing.T) {
			t.Parallel()
			kinds(t, func(t *testing.T, s *store) {
				s.raise(t, grant(7, "a"))
				own := ""
				if !s.postgres() {
					own = "max_statement_time=0.1"
				}
				next := with(t, s.at, s.at.At(s.at.Addr(), own), sqlfence.Options{LockTimeout: patience})
				tx := s.hold(t, s.db)
				begun := time.Now()
				_, err := next.f.Raise(context.Background(), job, grant(12, "b"))
				took := time.Since(begun)
				must(t, err)
				if took < patience || took > patience+time.Second {
					t.Errorf("a raise with a lock timeout of %v ended the session after %v", patience, took)
				}
				if err := tx.Commit(); err == nil {
					t.Error("the session that held the row was not ended")
				}
			})
		})
	}
}
