package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/explore"
)

func init() { simCommands = append(simCommands, simExploreCommand) }

type simExploreFlags struct {
	runs    uint64
	seed    uint64
	without []string
	workers int
	dir     string
	json    bool
	raft    bool
}

func simExploreCommand() *cobra.Command {
	var o simExploreFlags
	c := &cobra.Command{
		Use:   "explore",
		Short: "Try random worlds until a promise breaks",
		Long: `Runs random worlds, one for each seed: machines that pause, crash and have wrong
clocks, a network that loses, doubles and delays, leaders that change. Each is
checked against what stint promises. With every rule on, nothing may break.

What breaks is shrunk to the fewest faults, told as a story, and saved as a
scenario file that stint sim run plays again. Ctrl-C ends the search and prints
what it has done so far; while a world is being shrunk, the smallest one so far is
told and saved.

Rules that can be switched off:
  ` + wrapNames(protocol.RuleNames()) + `

The exit code is 1 where a promise was broken.`,
		Example: `  stint sim explore                        10,000 worlds, every rule on
  stint sim explore --without fence        what the fence is for
  stint sim explore --runs 1 --seed 4711   one world again`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.explore(c.Context()) },
	}
	f := c.Flags()
	o.runs = 10_000
	f.Var(settings.Whole{N: &o.runs, From: 1}, "runs", "random worlds")
	f.Var(settings.Whole{N: &o.seed}, "seed", "of the first one; each next one has the next seed")
	f.StringArrayVar(&o.without, "without", nil, "switch rules off: RULE,…")
	f.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "worlds at the same time")
	f.StringVar(&o.dir, "dir", ".", "where a scenario file is saved")
	f.BoolVar(&o.raft, "raft", false, "put every lock service on real Raft, not one in ten: some ten times slower")
	f.BoolVar(&o.json, "json", false, "write one JSON object")
	return c
}

func (o *simExploreFlags) explore(ctx context.Context) error {
	off, err := protocol.ParseRules(strings.Join(o.without, ","))
	if err != nil {
		return report.Usage("--without: "+err.Error(), "see: stint sim explore --help")
	}
	if o.workers < 1 || o.workers > 1024 {
		return report.Usage("--workers is from 1 to 1024", "see: stint sim explore --help")
	}
	if d, err := os.Stat(o.dir); err != nil || !d.IsDir() {
		return report.Usage("--dir: "+o.dir+" is not a folder", "make it first, or name another")
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	options := explore.Options{Runs: o.runs, Seed: o.seed, Without: off, Workers: o.workers, Raft: o.raft}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		options.Progress = func(r explore.Report) { fmt.Fprintf(os.Stderr, "\r%s ", progressLine(r, o.runs)) }
	}
	r := explore.Explore(ctx, options)
	stopped := ctx.Err() != nil
	if options.Progress != nil {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	if r.Found == nil {
		return o.nothing(r, stopped)
	}
	return o.found(r, stop)
}

func progressLine(r explore.Report, of uint64) string {
	worlds := "worlds"
	if of == 1 {
		worlds = "world"
	}
	return fmt.Sprintf("%d of %d %s, %.0f simulated s, %.0f a second", r.Runs, of, worlds, r.Simulated.Seconds(), r.Simulated.Seconds()/max(r.Took.Seconds(), 0.001))
}

// explored is an exploration in JSON.
type explored struct {
	Runs      uint64   `json:"runs"`
	Simulated float64  `json:"simulated_seconds"`
	Took      float64  `json:"seconds"`
	Stopped   bool     `json:"stopped"` // before all were done
	Without   []string `json:"without"`
	Broken    *brokeAt `json:"broken"`
}

func (o *simExploreFlags) json1(r explore.Report, stopped bool) explored {
	e := explored{Runs: r.Runs, Simulated: r.Simulated.Seconds(), Took: r.Took.Seconds(), Stopped: stopped, Without: []string{}}
	off, _ := protocol.ParseRules(strings.Join(o.without, ",")) // was read before
	for _, one := range off.Each() {
		e.Without = append(e.Without, one.String())
	}
	return e
}

func (o *simExploreFlags) nothing(r explore.Report, stopped bool) error {
	return result(func(out *bufio.Writer) {
		if o.json {
			json.NewEncoder(out).Encode(o.json1(r, stopped)) // the writer keeps its error
			return
		}
		fmt.Fprintf(out, "No promise was broken: %s, in %v.\n", progressLine(r, o.runs), r.Took.Round(10*time.Millisecond))
		if stopped {
			fmt.Fprintf(out, "Stopped early. To go on: stint sim explore --runs %d --seed %d%s\n", o.runs-r.Runs, o.seed+r.Runs, o.flags())
		}
	})
}

// flags are those that a further run needs, too.
func (o *simExploreFlags) flags() string {
	s := ""
	if o.raft {
		s += " --raft"
	}
	if len(o.without) > 0 {
		s += " --without " + strings.Join(o.without, ",")
	}
	return s
}
