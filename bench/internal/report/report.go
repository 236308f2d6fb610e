// Package report is what the commands that measure have in common: which parts are
// run, and how a run ends.
package report

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Parts are the parts to run: those of only, divided by commas; if it is empty, all.
func Parts(only string, all ...string) map[string]bool {
	names := all
	if only != "" {
		names = strings.Split(only, ",")
	}
	parts := map[string]bool{}
	for _, p := range names {
		parts[p] = true
	}
	return parts
}

// Exit ends the process: with 2 if nothing can be said because of err, with 1 if
// bars were missed.
func Exit(begun time.Time, missed int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	fmt.Printf("\n%v; bars missed: %d\n", time.Since(begun).Round(time.Second), missed)
	if missed > 0 {
		os.Exit(1)
	}
}
