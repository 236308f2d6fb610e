//go:build !race

// Command sql measures what a fence in an SQL database costs, on PostgreSQL and
// MariaDB servers that it starts itself, with every commit on disk; `make
// bench-sql` runs it. What is compared takes turns within one run, medians have
// an interval of confidence, and it exits with 1 when a bar is missed. With
// -quick everything is short, which shows that it works, and little more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stint-dev/stint/bench/internal/report"
)

// scale is how often and how long things are measured.
type scale struct {
	pairs  int           // of chunks, one fenced and one not
	turns  int           // of single updates, and of contended raises
	each   time.Duration // one such turn
	chunk  int           // rows
	crowds int           // contenders
}

var (
	full  = scale{pairs: 60, turns: 9, each: 500 * time.Millisecond, chunk: 5000, crowds: 64}
	short = scale{pairs: 6, turns: 2, each: 200 * time.Millisecond, chunk: 5000, crowds: 64}
)

func main() {
	quick := flag.Bool("quick", false, "few turns: a check that it works")
	only := flag.String("only", "", "the parts to run, divided by commas: chunks, single, raise")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{ctx: ctx, out: os.Stdout, scale: full, parts: report.Parts(*only, "chunks", "single", "raise")}
	if *quick {
		b.scale = short
	}
	begun := time.Now()
	err := b.run()
	report.Exit(begun, b.missed, err)
}

func (b *bench) run() error {
	for _, k := range kinds {
		s, err := open(b.ctx, k)
		if err != nil {
			return err
		}
		err = b.on(s)
		if err = errors.Join(err, s.close()); err != nil {
			return fmt.Errorf("%s: %w", k.server, err)
		}
	}
	return nil
}

func (b *bench) on(s *side) error {
	for _, part := range []struct {
		name string
		run  func(*side) error
	}{{"chunks", b.chunks}, {"single", b.single}, {"raise", b.raise}} {
		if b.parts[part.name] {
			if err := part.run(s); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}
