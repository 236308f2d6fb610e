//go:build !race

// Command etcd measures the authority on etcd beside the locks of etcd's own
// client library, on servers that it starts itself; `make bench-etcd` runs it.
// The two take turns within one run, medians are of at least five turns, and it
// exits with 1 when a bar is missed. With -quick everything is short, which shows
// that it works, and little more.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stint-dev/stint/bench/internal/report"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

func main() {
	etcdcluster.Main() // a member of the cluster whose links are cut
	childMain()        // a server that is measured, or a holder of many leases
	quick := flag.Bool("quick", false, "short turns and few cuts: a check that it works")
	only := flag.String("only", "", "the parts to run, divided by commas: cycles, handover, leases, cuts")
	nodes := flag.Int("nodes", 0, "measure on this many servers only; 0: on one, then on three")
	workers := flag.Int("workers", 0, "measure cycles with this many workers (1, 8 or 64) only; 0: with each")
	turns := flag.Int("turns", 0, "of each alternative; 0: as many as usual")
	profile := flag.String("profile", "", "write CPU profiles of cycles and of the processes that hold many leases to this file and a suffix")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{ctx: ctx, out: os.Stdout, scale: full, nodes: []int{1, 3}, profile: *profile, workers: *workers}
	if *nodes > 0 {
		b.nodes = []int{*nodes}
	}
	if *quick {
		b.scale = short
	}
	if *turns > 0 {
		b.scale.turns = *turns
	}
	begun := time.Now()
	err := b.run(report.Parts(*only, "cycles", "handover", "leases", "cuts"))
	report.Exit(begun, b.missed, err)
}

// scale is how long and how often things are measured.
type scale struct {
	turns     int           // of each alternative
	each      time.Duration // one turn of cycles
	handovers int           // in one turn, and
	atMost    time.Duration // for how long
	leases    int
	cuts      int
}

var (
	full  = scale{turns: 5, each: time.Second, handovers: 80, atMost: 3 * time.Second, leases: 10_000, cuts: 60}
	short = scale{turns: 2, each: 300 * time.Millisecond, handovers: 20, atMost: time.Second, leases: 1000, cuts: 6}
)

func (b *bench) run(parts map[string]bool) error {
	for _, nodes := range b.nodes {
		if !parts["cycles"] && !parts["handover"] && !parts["leases"] {
			break
		}
		if err := b.onServers(nodes, parts); err != nil {
			return err
		}
	}
	if parts["cuts"] {
		return b.cuts()
	}
	return nil
}

func (b *bench) onServers(nodes int, parts map[string]bool) error {
	s, err := startServers(b.ctx, nodes)
	if err != nil {
		return err
	}
	defer s.close()
	for _, part := range []struct {
		name string
		run  func(*servers) error
	}{{"cycles", b.cycles}, {"handover", b.handover}, {"leases", b.leases}} {
		if parts[part.name] {
			if err := part.run(s); err != nil {
				return fmt.Errorf("%s on %d nodes: %w", part.name, nodes, err)
			}
		}
	}
	return nil
}
