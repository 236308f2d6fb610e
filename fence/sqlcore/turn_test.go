package sqlcore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

// The transactions of a claim that was handed over go one at a time, so that
// whoever comes after a lost COMMIT settles it first.
func TestAHandedClaimHasOneTransactionAtATime(t *testing.T) {
	e := &Engine{turns: map[handed]*turn{}}
	c := fence.Claim{Name: "billing", Grant: fence.Grant{Token: 7, Nonce: "a"}}
	first, done, err := e.sequence(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := e.sequence(short, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("two at once: %v", err)
	}
	other := fence.Claim{Name: "billing", Grant: fence.Grant{Token: 8, Nonce: "b"}}
	if _, done, err := e.sequence(t.Context(), other); err != nil {
		t.Fatal(err)
	} else {
		done()
	}
	first.Lose("mark", 3)
	done()
	next, done, err := e.sequence(t.Context(), c)
	if err != nil || next.Lost() != "mark" {
		t.Fatalf("the lost COMMIT is forgotten: %q, %v", next.Lost(), err)
	}
	next.Settle(true, 4)
	done()
	if len(e.turns) != 0 {
		t.Errorf("%d turns are kept", len(e.turns))
	}
}

// Another process may write between two transactions of such a claim: neither
// knows a count of the other.
func TestAHandedClaimThatHasWaitedCountsNothing(t *testing.T) {
	e := &Engine{turns: map[handed]*turn{}}
	c := fence.Claim{Name: "billing", Grant: fence.Grant{Token: 7, Nonce: "a"}}
	first, done, err := e.sequence(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	known := make(chan bool, 1)
	go func() {
		next, done, err := e.sequence(context.Background(), c)
		if err != nil {
			t.Error(err)
			known <- true
			return
		}
		_, k := next.Count()
		done()
		known <- k
	}()
	for e.waiting(c) < 2 {
		time.Sleep(time.Millisecond)
	}
	first.Settle(true, 4)
	done()
	if <-known {
		t.Error("it goes by another's count")
	}
}

func (e *Engine) waiting(c fence.Claim) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turns[handed{c.Name, c.Grant}].users
}
