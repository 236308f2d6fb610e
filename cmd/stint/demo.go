package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stint-dev/stint/cmd/stint/internal/billing"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const demoBillingLong = `Runs a real job with a real fault. Three worker processes contend for the right
to bill 50,000 invoices in 10 chunks; authority and store are SQLite files in a
private folder, which is removed at the end. Worker A is stopped with SIGSTOP for
one and a half leases, with chunk 2 in its buffer, just after the check of its
lease has passed. Another worker takes over. Then A wakes and sends its chunk.

Afterwards every invoice is counted from the database. Its table of charges has
no unique key, so that a double bill would show.

Exit code 0: every customer was charged once. 1: some were not.`

// demoCommand is stint demo.
func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "See a frozen worker's late write refused",
		Args:  noSuchCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(demoBillingCommand(), demoWorkerCommand())
	return c
}

type demoFlags struct {
	speed                int
	unfenced, json, keep bool
}

func demoBillingCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "billing",
		Short: "Bill 50,000 invoices while one of three workers is frozen past its lease",
		Long:  demoBillingLong,
		Args:  exactly(),
		RunE:  func(c *cobra.Command, _ []string) error { return demoBilling(c.Context(), c.OutOrStdout(), f) },
	}
	c.Flags().IntVar(&f.speed, "speed", 5, "1, 2, 5 or 10 times as fast as a lease of 10 s")
	c.Flags().BoolVar(&f.unfenced, "unfenced", false, "write without asking the fence, and see what happens")
	c.Flags().BoolVar(&f.json, "json", false, "tell every step as a line of JSON")
	c.Flags().BoolVar(&f.keep, "keep", false, "keep the databases, and say where they are")
	return c
}

// demoWorkerCommand is one of the three processes.
func demoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "billing-worker CONFIG",
		Hidden: true,
		Args:   exactly("CONFIG"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := billing.RunWorker(c.Context(), args[0], os.Stdin, os.Stdout); err != nil {
				return &report.Problem{Code: report.ExitService, What: "the demo's worker failed", Err: err}
			}
			return nil
		},
	}
}

// interrupted is why the demo ended early.
type interrupted struct{ by syscall.Signal }

func (i interrupted) Error() string { return i.by.String() }

func demoBilling(ctx context.Context, w io.Writer, f demoFlags) error {
	if !slices.Contains([]int{1, 2, 5, 10}, f.speed) {
		return report.Usage(fmt.Sprintf("--speed %d: it is 1, 2, 5 or 10", f.speed), "see: stint demo billing --help")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			cancel(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	count, err := demoShow(ctx, w, f)
	if i, ok := errors.AsType[interrupted](err); ok {
		return exitCode(128 + int(i.by))
	}
	if err != nil {
		return &report.Problem{Code: report.ExitService, What: "the story did not come to its end", Err: err,
			Data: "the demo uses a private folder only; none of your data was touched", Do: "run it again, with a lower --speed if the machine is busy"}
	}
	if !f.json {
		fmt.Fprintln(w, count.Explain(f.unfenced))
	}
	if !count.OK() {
		return exitCode(1)
	}
	return nil
}

// demoShow plays the story in a folder of its own. When it returns, no process
// and, without --keep, no file is left.
func demoShow(ctx context.Context, w io.Writer, f demoFlags) (count billing.Count, err error) {
	exe, err := os.Executable()
	if err != nil {
		return count, err
	}
	dir, err := os.MkdirTemp("", "stint-demo-")
	if err != nil {
		return count, err
	}
	defer func() {
		if !f.keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	show := &billing.Show{
		Dir: dir, Worker: []string{exe, "demo", "billing-worker"},
		TTL: 10 * time.Second / time.Duration(f.speed), Unfenced: f.unfenced, Tell: billing.Lines{W: w}.Tell,
	}
	if !f.json {
		t := &billing.Timeline{W: w, Color: colored(w)}
		t.Head(show.TTL, dir, f.keep)
		show.Tell = t.Tell
	}
	return show.Run(ctx)
}

// colored tells whether w is a terminal whose user wants colours.
func colored(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
