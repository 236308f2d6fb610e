package sqlnode

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, k *Kind, o Options) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := Start(ctx, k, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestAServerServesAfterAKillAndLeavesNothing(t *testing.T) {
	for _, k := range []*Kind{PostgreSQL, MariaDB} {
		t.Run(k.String(), func(t *testing.T) {
			n := start(t, k, Options{})
			pid := n.Pid()
			dial(t, n)
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
			if syscall.Kill(pid, 0) != syscall.ESRCH {
				t.Errorf("process %d is still there", pid)
			}
			if c, err := net.DialTimeout("tcp", n.Addr(), time.Second); err == nil {
				c.Close()
				t.Error("it is killed, and yet it answers")
			}
			addr := n.Addr()
			if err := n.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			dial(t, n)
			if n.Addr() != addr {
				t.Errorf("it has moved from %s to %s", addr, n.Addr())
			}
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			twin := start(t, k, Options{From: n})
			dial(t, twin)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(n.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is still there: %v", err)
			}
		})
	}
}

func dial(t *testing.T, n *Node) {
	t.Helper()
	c, err := net.DialTimeout("tcp", n.Addr(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestAMissingServerIsToldWithItsPackage(t *testing.T) {
	k := *PostgreSQL
	k.programs, k.places = []string{"no-such-postgres"}, nil
	_, err := Start(t.Context(), &k, Options{})
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Fatalf("the error is %v", err)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	_, err := Start(t.Context(), PostgreSQL, Options{Settings: []string{"no_such_setting=1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Fatalf("the error is %v", err)
	}
}
