package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/loss"
)

func init() { simCommands = append(simCommands, simLossCommand) }

type simLossFlags struct {
	runs int
	seed uint64
	json bool
}

func simLossCommand() *cobra.Command {
	var o simLossFlags
	c := &cobra.Command{
		Use:   "loss",
		Short: "Measure what the rules are worth that cost time only",
		Long: `Two rules harm no data when they are left out: equal (the fence lets the present
holder's own token in) and beat (renewals depend on the work's signs of life).
This runs the same random worlds with them and without each, and says how many
jobs were done, how long they stood still, and how often the lease was granted.`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.measure(c.Context()) },
	}
	c.Flags().IntVar(&o.runs, "runs", 200, "random worlds")
	c.Flags().Var(settings.Whole{N: &o.seed}, "seed", "of the first one; each next one has the next seed")
	c.Flags().BoolVar(&o.json, "json", false, "write a JSON array")
	return c
}

// measured is a rule's loss in JSON; times are seconds.
type measured struct {
	Without string  `json:"without"` // empty: every rule on
	Worlds  int     `json:"worlds"`
	Done    int     `json:"done"`
	Still   float64 `json:"stood_still"` // in each world
	Worst   float64 `json:"worst"`
	Grants  float64 `json:"grants"` // in each world
	Twice   int     `json:"twice"`
}

// called is a row's name.
func called(without string) string {
	if without == "" {
		return "every rule on"
	}
	return "without " + without
}

// progress is one line on a terminal, and nil elsewhere.
func (o *simLossFlags) progress(without protocol.Rules) func(done int) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return func(done int) {
		if done%10 == 0 {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%s: %d of %d worlds ", called(without.String()), done, o.runs)
		}
	}
}

func (o *simLossFlags) measure(ctx context.Context) error {
	if o.runs < 1 || o.runs > 1_000_000 {
		return report.Usage("--runs is from 1 to 1000000", "see: stint sim loss --help")
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var all []measured
	for _, without := range append([]protocol.Rules{0}, loss.Rules.Each()...) {
		if ctx.Err() != nil {
			break
		}
		s, err := loss.Measure(ctx, o.seed, o.runs, without, o.progress(without))
		if err != nil {
			return err
		}
		all = append(all, measured{
			Without: without.String(), Worlds: s.Worlds, Done: s.Done, Still: s.Each(s.Still).Seconds(), Worst: s.Worst.Seconds(),
			Grants: float64(s.Grants) / float64(max(s.Worlds, 1)), Twice: s.Twice,
		})
	}
	stopped := ctx.Err() != nil
	if o.progress(0) != nil {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	if o.json {
		return report.JSON(os.Stdout, all)
	}
	return result(func(out *bufio.Writer) {
		fmt.Fprintf(out, "%-14s %7s %7s %14s %8s %8s %13s\n", "", "worlds", "done", "stood still", "worst", "grants", "charged twice")
		for _, m := range all {
			fmt.Fprintf(out, "%-14s %7d %7d %12.1f s %6.1f s %8.1f %13d\n", called(m.Without), m.Worlds, m.Done, m.Still, m.Worst, m.Grants, m.Twice)
		}
		if stopped {
			fmt.Fprintln(out, "Stopped early.")
		}
	})
}
