package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// setting is the value of a line of a unit; empty: there is none.
func setting(unit, name string) string {
	_, value, _ := strings.Cut(unit, "\n"+name+"=")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// TestTheNodesUnitOfContribServes: its command, as systemd would run it, says that
// it is ready, has its data where the unit says, and ends in the way that the unit
// counts on.
func TestTheNodesUnitOfContribServes(t *testing.T) {
	unit := example(t, "systemd/stint.service")
	line := strings.Replace(setting(unit, "ExecStart"), "/usr/local/bin/stint", "stint", 1)
	if !strings.HasPrefix(line, "stint serve") || setting(unit, "Type") != "notify" || setting(unit, "StateDirectory") != "stint" {
		t.Fatalf("the unit runs %q, of type %q, in %q", line, setting(unit, "Type"), setting(unit, "StateDirectory"))
	}
	dir, err := os.MkdirTemp("", "stint-notify-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()

	w := newWorld(t)
	// Settings are variables, as the unit says.
	variables := "NOTIFY_SOCKET=" + filepath.Join(dir, "s") + " STATE_DIRECTORY=" + w.path("state") +
		" STINT_LISTEN=" + freeAddress(t) + " STINT_HEARTBEAT=50ms STINT_ELECTION=500ms "
	p := w.command(nil, "sh", "-c", "exec env "+variables+line)
	told := make([]byte, 1000)
	if err := manager.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if n, err := manager.Read(told); err != nil || !strings.HasPrefix(string(told[:n]), "READY=1\n") {
		t.Fatalf("the manager heard %q, %v", told[:n], err)
	}
	for _, file := range []string{"state/etcd/member", "state/etcd-mark"} {
		eventually(t, file+" is there", func() bool { _, err := os.Stat(w.path(file)); return err == nil })
	}
	// What another start does not mend is not started again.
	wrong := w.command(nil, "sh", "-c", "exec env "+variables+"STINT_ELECTION=5 "+line)
	wrong.expect(78)
	if !slices.Contains(strings.Fields(setting(unit, "RestartPreventExitStatus")), "78") {
		t.Error("the unit starts a node with a wrong setting again and again")
	}
	p.signal(syscall.SIGTERM)
	p.expect(0)
}
