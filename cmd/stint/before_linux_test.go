package main

import (
	"strings"
	"syscall"
	"testing"
)

// A shell has started a job and then exec'ed stint. What the job leaves behind
// falls to stint, and is neither waited for nor ended.
func TestWhatTheShellHadStartedBeforeStintIsNotTheCommands(t *testing.T) {
	w := newWorld(t)
	p := w.command(nil, "sh", "-c", `(until [ -e go ]; do sleep 0.01; done; (sleep 100 & echo $! >orphan)) >/dev/null 2>&1 &
		exec stint run k -- sh -c 'touch go; until [ -s orphan ]; do sleep 0.01; done'`)
	orphan := w.pid("orphan")
	p.expect(0)
	defer func() { _ = syscall.Kill(orphan, syscall.SIGKILL) }()
	if err := syscall.Kill(orphan, 0); err != nil {
		t.Errorf("the job's process was ended: %v", err)
	}
	if strings.Contains(p.out.String(), "left") {
		t.Error("it was taken for the command's")
	}
}
