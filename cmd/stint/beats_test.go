package main

import (
	"os"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/notify"
)

// beats FILE [STATE...] is a command that says each STATE once, and then gives
// signs of life, until FILE is there. From then on it is silent, and goes on
// working. FILE-ready says that it has given the first one.
func beats() {
	say := func(state string) {
		for end := time.Now().Add(limit); ; {
			err := notify.Try(state)
			if err == nil {
				return
			}
			if !os.IsTimeout(err) || time.Now().After(end) { // a stint that is frozen makes no room in its socket
				panic(err)
			}
		}
	}
	for _, state := range os.Args[2:] {
		say(state)
	}
	for n := 0; ; n++ {
		if _, err := os.Stat(os.Args[1]); err == nil {
			break
		}
		say("WATCHDOG=1")
		if n == 0 {
			_ = os.WriteFile(os.Args[1]+"-ready", []byte("\n"), 0o600)
		}
		time.Sleep(50 * time.Millisecond)
	}
	select {}
}
