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
	"github.com/stint-dev/stint/cmd/stint/internal/demonodes"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/internal/sqlnode"
)

const demoBillingLong = `Runs a real job with a real fault. Three worker processes contend for the right
to bill 50,000 invoices in 10 chunks; authority and store are SQLite files in a
private folder, which is removed at the end. With --store postgres or mariadb the
store is a private server of that kind, which is started for the demo and ends
with it; with --store URL it is a database of yours, in which the demo makes
tables of its own and drops them at the end. Worker A is stopped with SIGSTOP for
one and a half leases, with chunk 2 in its buffer, just after the check of its
lease has passed. Another worker takes over. Then A wakes and sends its chunk.

With --authority etcd the leases come from three real etcd processes, and the one
that leads is killed with SIGKILL while B holds: B keeps its lease, with the same
token, under the next leader.

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
	authority, store     string
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
	c.Flags().IntVar(&f.speed, "speed", 0, "1, 2, 5 or 10 times as fast as a lease of 10 s; 1 or 2 with etcd (default 5, or 2 with etcd)")
	c.Flags().StringVar(&f.authority, "authority", "sqlite", "what grants the leases: sqlite (a file), or etcd (three processes)")
	settings.NoEnv(c.Flags().Lookup("authority")) // STINT_AUTHORITY is a real one
	c.Flags().StringVar(&f.store, "store", "sqlite", "where the invoices are: sqlite (a file), postgres or mariadb (a private server), or the URL of a database")
	settings.NoEnv(c.Flags().Lookup("store"))
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

// complete fills in the speed, and refuses what cannot be meant.
func (f *demoFlags) complete() error {
	see := "see: stint demo billing --help"
	etcd := f.authority == "etcd"
	switch {
	case !etcd && f.authority != "sqlite":
		return report.Usage("--authority "+f.authority+": the demo makes its own, sqlite or etcd", see)
	case f.speed == 0 && etcd:
		f.speed = 2
	case f.speed == 0:
		f.speed = 5
	case !slices.Contains([]int{1, 2, 5, 10}, f.speed):
		return report.Usage(fmt.Sprintf("--speed %d: it is 1, 2, 5 or 10", f.speed), see)
	case etcd && f.ttl() < demonodes.Shortest:
		return report.Usage(fmt.Sprintf("--speed %d makes leases of %v, which may not outlive the time in which another leader is elected", f.speed, f.ttl()),
			"give --speed 1 or 2 with --authority etcd")
	}
	return checkStore(f.store, see)
}

func (f *demoFlags) ttl() time.Duration { return 10 * time.Second / time.Duration(f.speed) }

// interrupted is why the demo ended early.
type interrupted struct{ by syscall.Signal }

func (i interrupted) Error() string { return i.by.String() }

func demoBilling(ctx context.Context, w io.Writer, f demoFlags) error {
	if err := f.complete(); err != nil {
		return err
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
	count, kept, err := demoShow(ctx, w, f)
	// The error may be that of whoever was interrupted, in words of its own.
	if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok && err != nil {
		return exitCode(128 + int(i.by))
	}
	if missing, ok := errors.AsType[*sqlnode.MissingError](err); ok {
		return &report.Problem{Code: report.ExitService, What: "--store " + f.store + " needs a server", Err: missing,
			Data: "nothing was started or written", Do: "install it, or give --store the URL of a database, or leave --store out"}
	}
	if err != nil {
		return &report.Problem{Code: report.ExitService, What: "the story did not come to its end", Err: err,
			Data: "the demo writes to files and tables of its own only; none of your data was touched", Do: "run it again, with a lower --speed if the machine is busy"}
	}
	if !f.json {
		fmt.Fprintln(w, count.Explain(f.unfenced)+kept)
	}
	if !count.OK() {
		return exitCode(1)
	}
	return nil
}

// demoShow plays the story in a folder of its own. When it returns, no process
// and, without --keep, no file is left.
func demoShow(ctx context.Context, w io.Writer, f demoFlags) (count billing.Count, kept string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return count, "", err
	}
	dir, err := os.MkdirTemp("", "stint-demo-")
	if err != nil {
		return count, "", err
	}
	defer func() {
		if !f.keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	store, err := openStore(ctx, f)
	if err != nil {
		return count, "", err
	}
	defer func() { err = errors.Join(err, store.close(f.keep)) }()
	show := &billing.Show{
		Dir: dir, Worker: []string{exe, "demo", "billing-worker"},
		TTL: f.ttl(), Unfenced: f.unfenced, Tell: billing.Lines{W: w}.Tell,
	}
	said := ""
	if store != nil {
		show.Store, show.Prefix, said = store.url, store.prefix, store.said
	}
	if f.authority == "etcd" {
		nodes, err := startNodes(ctx, exe, dir)
		if err != nil {
			return count, "", err
		}
		defer nodes.Kill()
		show.Nodes = nodes
	}
	if !f.json {
		t := &billing.Timeline{W: w, Color: colored(w)}
		t.Head(show, said, f.keep)
		show.Tell = t.Tell
	}
	if count, err = show.Run(ctx); err == nil && show.Kept() != "" {
		kept = "\n\n" + show.Kept()
	}
	return count, kept, err
}

// startNodes waits for the authority's processes; why it was interrupted stays
// the reason.
func startNodes(ctx context.Context, exe, dir string) (*demonodes.Nodes, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the nodes took too long to start"))
	defer cancel()
	n, err := demonodes.Start(ctx, exe, dir)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return n, err
}

// colored tells whether w is a terminal whose user wants colours.
func colored(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
