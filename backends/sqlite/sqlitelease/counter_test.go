package sqlitelease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// A counter at its end grants nothing rather than a token twice, and takes
// nothing from those who hold.
func TestACounterThatIsUsedUpGrantsNothing(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	first := mustAcquire(t, a, ask("first", "n", time.Minute))
	if _, after, err := Bump(t.Context(), path, fence.MaxToken-first.Token-1); err != nil || after != fence.MaxToken-1 {
		t.Fatal(after, err)
	}
	last := mustAcquire(t, a, ask("last", "n", time.Minute))
	if last.Token != fence.MaxToken {
		t.Fatalf("token %d, want %d", last.Token, fence.MaxToken)
	}
	for range 2 {
		r := ask("x", "n", time.Minute)
		r.Waiter = "w"
		g, err := a.Acquire(t.Context(), r)
		if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), "used up") {
			t.Fatalf("granted %+v, %v", g, err)
		}
	}
	if s, err := a.Inspect(t.Context(), "x"); err != nil || s.Held || !s.Grant.IsZero() || s.Waiters != 0 {
		t.Errorf("the refusal left %+v, %v", s, err)
	}
	if again := mustAcquire(t, a, ask("last", "n", time.Minute)); again != last { // its answer was lost
		t.Errorf("asked again: %+v", again)
	}
	if _, err := a.Renew(t.Context(), first); err != nil {
		t.Error(err)
	}
	if err := a.Release(t.Context(), last); err != nil {
		t.Error(err)
	}
	if _, err := a.Acquire(t.Context(), ask("last", "m", time.Minute)); err == nil {
		t.Error("a released token was granted again")
	}
}
