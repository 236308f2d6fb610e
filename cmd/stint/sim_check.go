package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/explore"
)

func init() { simCommands = append(simCommands, simCheckCommand) }

type simCheckFlags struct {
	workers, chunks, seconds, lost, changes int
	steps, states                           int
	without                                 []string
	json                                    bool
}

func simCheckCommand() *cobra.Command {
	var o simCheckFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Try every order of events in a small world",
		Long: `Visits every state that a small world can reach within a number of events: two
or three workers, a lock service of two nodes, a table. Messages arrive in any
order, late or never; anybody may be paused between any two events; the leader
may change. It says how many states it has visited.

The exit code is 1 where a promise was broken; the path that is shown is one of
the shortest.`,
		Example: `  stint sim check
  stint sim check --steps 9 --lost 0 --changes 0 --without fence`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.check(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&o.workers, "workers", 2, "who want the lease")
	f.IntVar(&o.chunks, "chunks", 2, "of the job")
	f.IntVar(&o.seconds, "seconds", 4, "that may pass; a lease lasts 3")
	f.IntVar(&o.lost, "lost", 1, "messages that may be late or lost")
	f.IntVar(&o.changes, "changes", 1, "of the lock service's leader")
	f.IntVar(&o.steps, "steps", 7, "events")
	f.IntVar(&o.states, "states", 2_000_000, "that are visited at most")
	f.StringArrayVar(&o.without, "without", nil, "switch rules off: RULE,…")
	f.BoolVar(&o.json, "json", false, "write one JSON object")
	return c
}

func (o *simCheckFlags) options() (explore.SearchOptions, error) {
	for _, n := range []struct {
		name         string
		n, from, top int
	}{
		{"workers", o.workers, 1, 3}, {"chunks", o.chunks, 1, 10}, {"seconds", o.seconds, 0, 60}, {"lost", o.lost, 0, 10},
		{"changes", o.changes, 0, 10}, {"steps", o.steps, 1, 100}, {"states", o.states, 1, 100_000_000},
	} {
		if n.n < n.from || n.n > n.top {
			return explore.SearchOptions{}, report.Usage(fmt.Sprintf("--%s %d: allowed are %d to %d", n.name, n.n, n.from, n.top), "see: stint sim check --help")
		}
	}
	off, err := protocol.ParseRules(strings.Join(o.without, ","))
	if err != nil {
		return explore.SearchOptions{}, report.Usage("--without: "+err.Error(), "see: stint sim check --help")
	}
	return explore.SearchOptions{
		SmallConfig: explore.SmallConfig{Workers: o.workers, Chunks: o.chunks, Seconds: o.seconds, Lost: o.lost, Changes: o.changes, Without: off},
		Steps:       o.steps, States: o.states,
	}, nil
}

func (o *simCheckFlags) check(ctx context.Context) error {
	options, err := o.options()
	if err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if term.IsTerminal(int(os.Stderr.Fd())) {
		options.Progress = func(s explore.Searched) {
			fmt.Fprintf(os.Stderr, "\r%d states within %d events ", s.States, s.Steps)
		}
	}
	r := explore.Search(ctx, options)
	stopped := ctx.Err() != nil
	if options.Progress != nil {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	if err := o.show(r, stopped); err != nil {
		return err
	}
	if r.Broken != nil {
		return &report.Problem{Code: 1, What: "a promise is broken: " + r.Broken.Promise}
	}
	return nil
}

// checked is a search in JSON.
type checked struct {
	States  int         `json:"states"`
	Tried   int         `json:"tried"`
	Steps   int         `json:"steps"`
	Whole   bool        `json:"whole"`
	Stopped bool        `json:"stopped"`
	Took    float64     `json:"seconds"`
	Broken  *checkBroke `json:"broken"`
}

type checkBroke struct {
	Promise string   `json:"promise"`
	Why     string   `json:"why"`
	Story   []string `json:"story"` // of a shortest path
}

func (o *simCheckFlags) show(r explore.Searched, stopped bool) error {
	return result(func(out *bufio.Writer) {
		if o.json {
			all := checked{States: r.States, Tried: r.Paths, Steps: r.Steps, Whole: r.Whole, Stopped: stopped, Took: r.Took.Seconds()}
			if r.Broken != nil {
				all.Broken = &checkBroke{r.Broken.Promise, r.Broken.Why, r.Story}
			}
			json.NewEncoder(out).Encode(all) // the writer keeps its error
			return
		}
		if r.Broken != nil {
			fmt.Fprintf(out, "%s\n\nBROKEN: %v\n\n", strings.Join(r.Story, "\n"), r.Broken)
		}
		fmt.Fprintf(out, "%d states visited: %s. %d events were tried, in %v.\n", r.States, o.within(r), r.Paths, r.Took.Round(10*time.Millisecond))
		if stopped {
			fmt.Fprintln(out, "Stopped early.")
		}
	})
}

// within says which states were visited for certain.
func (o *simCheckFlags) within(r explore.Searched) string {
	reached := fmt.Sprintf("all that %d events reach", r.Steps)
	if r.Steps == 1 {
		reached = "all that 1 event reaches"
	}
	switch {
	case r.Whole:
		return "all that there are"
	case r.Broken == nil && r.Steps < o.steps:
		return reached + ", and some more"
	}
	return reached
}
