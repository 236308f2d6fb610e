//go:build !race

// Command bench measures what the project promises in numbers, and the choices
// that were made by measuring; `make bench` runs it. Alternatives take turns
// within one run, because a machine's speed differs from one minute to the next.
// It exits with 1 when a bar is missed.
//
// It is left out of race-detector builds, where it would measure the detector.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if text := os.Getenv(writerEnv); text != "" {
		var order writerOrder
		err := json.Unmarshal([]byte(text), &order)
		if err == nil {
			err = runWriter(order, os.Stdin, os.Stdout)
		}
		exitOn(err)
		return
	}
	d := flag.Duration("each", 2*time.Second, "how long each rate is measured, per round")
	rounds := flag.Int("rounds", 3, "how many times the alternatives take turns")
	flag.Parse()
	dir, err := os.MkdirTemp("", "stint-bench-")
	exitOn(err)
	b := &bench{dir: dir, each: *d, rounds: *rounds, out: os.Stdout}
	err = b.run()
	_ = os.RemoveAll(dir)
	exitOn(err)
	if b.missed > 0 {
		fmt.Printf("\n%d of the bars was missed\n", b.missed)
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}
