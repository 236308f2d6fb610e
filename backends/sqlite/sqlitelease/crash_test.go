package sqlitelease

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
)

// TestTokensGrowOverKilledProcesses kills a process that takes and releases
// leases as fast as it can, again and again, wherever it is.
func TestTokensGrowOverKilledProcesses(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	last := int64(0)
	for round := range 8 {
		p := start(t, "churn", path, "x", fmt.Sprintf("r%d", round))
		p.says("started")
		time.Sleep(time.Duration(rand.N(30)) * time.Millisecond) // anywhere in its work
		p.signal(syscall.SIGKILL)
		for line := range p.lines {
			var token int64
			if _, err := fmt.Sscanf(line, "granted %d", &token); err != nil {
				t.Fatal(line)
			}
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
		}
		g := mustAcquire(t, a, ask("y", fmt.Sprintf("n%d", round), time.Millisecond))
		if int64(g.Token) <= last {
			t.Fatalf("token %d after %d", g.Token, last)
		}
		last = int64(g.Token)
		eventually(t, "a free name", func() bool { s, err := a.Inspect(t.Context(), "y"); return err == nil && !s.Held })
	}
}

// TestEveryLostAnswerIsSettledByAskingAgain loses each request once before and
// once after it was applied.
func TestEveryLostAnswerIsSettledByAskingAgain(t *testing.T) {
	for what, fault := range map[string]faulty.Fault{"request": faulty.DropRequest, "answer": faulty.DropAnswer} {
		t.Run("lost "+what, func(t *testing.T) {
			once := func(_ string, n int) faulty.Fault {
				if n == 1 {
					return fault
				}
				return faulty.Pass
			}
			a := faulty.New(openAt(t, newPath(t), Options{}), once)
			r := ask("x", "n", time.Minute)
			if _, err := a.Acquire(t.Context(), r); err == nil {
				t.Fatal("the acquire was not lost")
			}
			g := mustAcquire(t, a, r)
			if g.Token != 1 {
				t.Errorf("asked again, token %d", g.Token)
			}
			if _, err := a.Renew(t.Context(), g); err == nil {
				t.Fatal("the renewal was not lost")
			}
			if n, err := a.Renew(t.Context(), g); err != nil || n != (authority.Grant{Grant: g.Grant, Name: "x", Length: time.Minute}) {
				t.Errorf("renewed again: %+v, %v", n, err)
			}
			if err := a.Release(t.Context(), g); err == nil {
				t.Fatal("the release was not lost")
			}
			if err := a.Release(t.Context(), g); err != nil {
				t.Errorf("released again: %v", err)
			}
			if g := mustAcquire(t, a, ask("x", "m", time.Minute)); g.Token != 2 {
				t.Errorf("the next token is %d", g.Token)
			}
		})
	}
}
