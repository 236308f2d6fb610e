package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/notify"
)

// A manager that does not read must not hold up the loop that ends the command;
// what it has to know it hears later.
func TestABusyManagerHearsOfReadinessWhenItReads(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "n")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for notify.Offer("STATUS=before") == nil {
	}
	u := newUpstream()
	u.started("holding k")
	if u.owed == "" {
		t.Fatal("a full queue has taken it")
	}
	_ = manager.SetReadDeadline(time.Now().Add(limit))
	for buf := make([]byte, 1000); ; {
		n, err := manager.Read(buf)
		if err != nil {
			t.Fatalf("it is not heard: %v", err)
		}
		if strings.HasPrefix(string(buf[:n]), "READY=1\n") {
			return
		}
		u.alive()
	}
}
