package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/authority"
)

// witness FILE [DURATION] is a command that must never run twice at once. It
// ignores TERM, so that only KILL ends it early; with DURATION it ends by itself
// after that, or, told by TERM, by that signal 200 ms later. Two observers watch
// it from outside: the kernel, which holds FILE.lock for it until it is dead, and
// its own stamps of the host's boot clock, which go on until then.
//
// FILE gets a line "start PID STAMP", then "alive PID STAMP" again and again,
// and "overlap PID STAMP" when another has the lock.
func witness() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	file, until := os.Args[1], time.Now().Add(time.Hour)
	if len(os.Args) > 2 {
		d, err := time.ParseDuration(os.Args[2])
		if err != nil {
			panic(err)
		}
		until = time.Now().Add(d)
	} else {
		term = nil
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	say := func(what string) {
		fmt.Fprintf(out, "%s %d %d\n", what, os.Getpid(), authority.BootClock{}.Now())
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		say("overlap")
		os.Exit(99)
	}
	told := false
	for say("start"); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		say("alive")
		select {
		case <-term:
			told, until = true, time.Now().Add(200*time.Millisecond)
		default:
		}
	}
	if told {
		signal.Reset(syscall.SIGTERM)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {}
	}
}

// onTerm FILE waits for TERM, writes FILE with a stamp of the boot clock, and
// then does not end.
func onTerm() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	_ = os.WriteFile(os.Args[1]+".ready", nil, 0o600)
	<-c
	_ = os.WriteFile(os.Args[1], fmt.Appendf(nil, "%d", authority.BootClock{}.Now()), 0o600)
	select {}
}
