package memlease

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

func TestACounterThatIsUsedUpGrantsNothing(t *testing.T) {
	a := New(nil)
	defer a.Close()
	a.counter = fence.MaxToken - 1
	ask := func(name string) authority.Request {
		return authority.Request{Name: name, Length: time.Minute, Nonce: "n", Waiter: "w"}
	}
	last, err := a.Acquire(t.Context(), ask("last"))
	if err != nil || last.Token != fence.MaxToken {
		t.Fatal(last, err)
	}
	if g, err := a.Acquire(t.Context(), ask("x")); err == nil || !strings.Contains(err.Error(), "used up") {
		t.Fatalf("granted %+v, %v", g, err)
	}
	if s, err := a.Inspect(t.Context(), "x"); err != nil || s.Held || s.Waiters != 0 {
		t.Errorf("the refusal left %+v, %v", s, err)
	}
	if _, err := a.Renew(t.Context(), last); err != nil {
		t.Error(err)
	}
}
