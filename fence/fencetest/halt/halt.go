//go:build unix

// Package halt kills and stops processes at a chosen moment, by their own hand: for
// tests of what is left of work that ends in the middle, or goes on late.
package halt

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Self sends sig, SIGKILL or SIGSTOP, to its own process, and returns when that has
// been continued. The signal may reach another thread first, and this one would go
// on for a while: it waits here.
func Self(sig syscall.Signal) error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		return err
	}
	<-continued
	return nil
}

// Stopped waits until a child of this process is stopped. One that ends instead is
// an error, and has been reaped.
func Stopped(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || !status.Stopped():
			return fmt.Errorf("process %d is not stopped: %v, status %#x", pid, err, int(status))
		}
		return nil
	}
}
