package main

import (
	"syscall"
	"testing"
)

// Whichever of these ends a job, the job ends by it and says so, and its lease
// is free.
func TestASignalThatEndsTheCommandIsItsExitCode(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{
		syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129, syscall.SIGQUIT: 131,
		syscall.SIGUSR1: 138, syscall.SIGUSR2: 140,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			w := newWorld(t)
			a := w.start("run", "k", "--", "sh", "-c", "echo $$ >pid; exec sleep 100")
			pid := w.pid("pid")
			a.signal(sig)
			a.expect(code)
			gone(t, pid)
			if s := w.inspect(w.open(), "k"); s.Held {
				t.Errorf("the lease is still held: %+v", s)
			}
		})
	}
}
