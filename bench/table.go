//go:build !race

package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// bench is one run: what it measures with, and what came of it.
type bench struct {
	dir    string        // for database files; removed at the end
	each   time.Duration // how long each rate is measured, per round
	rounds int
	out    io.Writer
	missed int // bars
}

func (b *bench) run() error {
	for _, part := range []struct {
		title string
		run   func() error
	}{
		{"two processes write to one SQLite file (why the driver is ncruces/go-sqlite3)", b.writers},
		{"the check before every action", b.leaseErr},
		{"many leases in one client", b.manyLeases},
		{"what the client spends on renewals, where the authority takes many at once", b.renewals},
		{"the price of the fence, on SQLite", b.fenced},
		{"acquire and release on SQLite", b.cycles},
	} {
		fmt.Fprintf(b.out, "\n%s\n", part.title)
		if err := part.run(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) row(what, format string, args ...any) {
	fmt.Fprintf(b.out, "  %-44s %s\n", what, fmt.Sprintf(format, args...))
}

// bar prints a promise beside what was measured, and counts it when missed.
func (b *bench) bar(what string, got, most float64, unit string) {
	verdict := "met"
	if got > most {
		verdict = "MISSED"
		b.missed++
	}
	b.row(what, "%.2f %s (at most %.2f: %s)", got, unit, most, verdict)
}

// subdir makes a folder of its own for one measurement.
func (b *bench) subdir() (string, error) { return os.MkdirTemp(b.dir, "") }

func (b *bench) writers() error {
	for range b.rounds {
		for _, d := range drivers {
			dir, err := b.subdir()
			if err != nil {
				return err
			}
			r, err := contend(d.name, dir, b.each)
			if err != nil {
				return err
			}
			more, less := r[0], r[1]
			if more.Commits < less.Commits {
				more, less = less, more
			}
			sum := more.Commits + less.Commits
			b.row(d.label, "%6.0f commits/s; the slower one's share %4.1f %%; longest gap %v; gave up %d times",
				float64(sum)/b.each.Seconds(), 100*float64(less.Commits)/float64(max(sum, 1)),
				max(more.Longest, less.Longest).Round(time.Millisecond), more.Busy+less.Busy)
		}
	}
	return nil
}
