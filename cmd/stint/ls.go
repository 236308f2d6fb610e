package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/fence"
)

// lookTimeout bounds one question to an authority.
const lookTimeout = 10 * time.Second

type lookFlags struct {
	place
	json, all bool
}

func lsCommand() *cobra.Command {
	var o lookFlags
	c := &cobra.Command{
		Use:   "ls",
		Short: "List who holds what",
		Long: `Lists the leases that are held, or waited for. With --all, also the names that
are free and that the authority still remembers.

LEFT is how long the authority keeps the lease if it is not renewed; a holder
that is well renews it long before.`,
		Example: `  stint ls --authority sqlite:///srv/leases.db
  stint ls --json | jq -r '.[] | select(.held) | .name'`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error { return o.ls() },
	}
	o.place.flags(c.Flags())
	c.Flags().BoolVar(&o.json, "json", false, "write a JSON array")
	c.Flags().BoolVarP(&o.all, "all", "a", false, "list free names too")
	return c
}

func (o *lookFlags) ls() error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	var states []authority.State
	a, err := o.openToLook(ctx)
	switch {
	case err == nil:
		defer a.Close()
		if states, err = list(ctx, a, o.all); err != nil {
			return err
		}
	case o.url == "" && errors.Is(err, fs.ErrNotExist):
		// The default file: nobody has taken a lease on this host yet.
	default:
		return err
	}
	if !o.json {
		return report.Table(os.Stdout, states)
	}
	leases := make([]report.Lease, 0, len(states)) // an empty list is [], not null
	for _, s := range states {
		leases = append(leases, report.FromState(s))
	}
	return report.JSON(os.Stdout, leases)
}

func list(ctx context.Context, a authority.Authority, all bool) ([]authority.State, error) {
	l, ok := a.(authority.Lister)
	if !ok {
		return nil, &report.Problem{Code: report.ExitService, What: "this authority cannot list its names",
			Do: "ask for one: stint show NAME"}
	}
	var states []authority.State
	for s, err := range l.List(ctx) {
		if err != nil {
			return nil, unanswered(err)
		}
		if all || s.Held || s.Waiters > 0 {
			states = append(states, s)
		}
	}
	return states, nil
}

func unanswered(err error) error {
	p := &report.Problem{Code: report.ExitService, What: "the authority did not answer", Err: err,
		Data: "nothing was changed", Do: "try again"}
	if !silent(err) { // it did, or its file says what is wrong
		p.What = "the authority cannot be used"
	}
	if errors.Is(err, authority.ErrBroken) {
		p.Do = "" // it says so itself, and trying again does not help
	}
	return p
}

// silent tells an authority that gave no answer in time from one that failed.
func silent(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func showCommand() *cobra.Command {
	var o lookFlags
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one lease",
		Long: `Shows who holds NAME, with which token, since when, and for how long if it is
not renewed; when it is free, who held it last, which etcd does not remember. A
name that was never held is free: that is no error.`,
		Example: `  stint show nightly
  stint show nightly --json | jq .token`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return o.show(args[0]) },
	}
	o.place.flags(c.Flags())
	c.ValidArgsFunction = o.completeNames(cobra.ShellCompDirectiveNoFileComp)
	c.Flags().BoolVar(&o.json, "json", false, "write a JSON object")
	return c
}

func (o *lookFlags) show(name string) error {
	if err := fence.CheckName(name); err != nil {
		return report.Usage(err.Error(), "see: stint show --help")
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	s := authority.State{Name: name}
	a, err := o.openToLook(ctx)
	switch {
	case err == nil:
		defer a.Close()
		if s, err = a.Inspect(ctx, name); err != nil {
			return unanswered(err)
		}
	case o.url == "" && errors.Is(err, fs.ErrNotExist):
	default:
		return err
	}
	if o.json {
		return report.JSON(os.Stdout, report.FromState(s))
	}
	return report.Details(os.Stdout, s, !isEtcd(o.url))
}
