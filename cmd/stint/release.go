package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
	"github.com/stint-dev/stint/fence"
)

const releaseLong = `Breaks the glass: ends a lease that its holder cannot or will not give back. A
holder that has died needs no help: its lease runs out by itself.

The token that "stint show NAME" shows must be given, and only that very grant
is ended: if another has taken the lease meanwhile, nothing is changed.

The holder may still be working. With --fence, its token is shut out of the
store first, so that nothing it still sends is accepted. Without, it can write
until it notices, at the latest at its stop time; make sure that it is dead, or
that two at once do no harm.

--token has no variable, since STINT_TOKEN is what "stint run" tells its command.`

type releaseFlags struct {
	place
	token       int64
	reason      string
	fence       string
	yes, asJSON bool
}

// broken is the record of a lease that was ended by hand.
type broken struct {
	Name   string `json:"name"`
	Token  int64  `json:"token"`
	Grant  string `json:"grant"`
	Holder string `json:"holder"`
	Reason string `json:"reason"`
	By     string `json:"by"`
	At     string `json:"at"`
	Fence  string `json:"fence,omitempty"`                  // the store that shuts the token out
	Raised int64  `json:"fence_token,omitempty"`            // to what its fence was raised
	Left   string `json:"holder_may_go_on_until,omitempty"` // without a fence; by this host's wall clock
}

func releaseCommand() *cobra.Command {
	var o releaseFlags
	c := &cobra.Command{
		Use:   "release NAME --token N --reason TEXT",
		Short: "End a lease by force",
		Long:  releaseLong,
		Example: `  stint show billing
  stint release billing --token 41 --reason "web-3 hangs, powered off" \
        --fence sqlite:///srv/store.db`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return o.release(args[0]) },
	}
	c.ValidArgsFunction = o.completeNames(cobra.ShellCompDirectiveNoFileComp)
	f := c.Flags()
	o.place.flags(f)
	f.Int64Var(&o.token, "token", 0, "the token of the lease to end, as stint show tells it")
	f.StringVar(&o.reason, "reason", "", "why, for the record")
	f.StringVar(&o.fence, "fence", "", "URL of the store that shuts the token out first, as in sqlite:///path/store.db")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.asJSON, "json", false, "write the record as JSON")
	return c
}

func (o *releaseFlags) check(name string) error {
	do := "see: stint show NAME, and stint release --help"
	switch err := fence.CheckName(name); {
	case err != nil:
		return report.Usage(err.Error(), do)
	case !fence.Token(o.token).Valid():
		return report.Usage("release needs --token: the token of the lease that you mean to end", do)
	case strings.TrimSpace(o.reason) == "":
		return report.Usage("release needs --reason: somebody will ask", do)
	}
	return checkFence(o.fence)
}

func (o *releaseFlags) release(name string) error {
	if err := o.check(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	a, err := o.openToLook(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	seen, err := o.inspect(ctx, a, name)
	if err != nil {
		return err
	}
	out := report.NewPrinter(os.Stderr)
	if err := o.confirm(out, seen); err != nil {
		return err
	}
	// The time for the answer was the person's; the work gets its own.
	ctx, cancel = context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	return o.end(ctx, a, out, seen)
}

// inspect refuses unless the living grant has the token that was named.
func (o *releaseFlags) inspect(ctx context.Context, a authority.Authority, name string) (authority.State, error) {
	s, err := a.Inspect(ctx, name)
	if err != nil {
		return s, unanswered(err)
	}
	refuse := func(what string) error {
		return &report.Problem{Code: report.ExitConflict, What: what, Data: "nothing was changed",
			Do: "look again: stint show " + report.Name(name)}
	}
	switch {
	case !s.Held:
		return s, refuse(report.Name(name) + " is free: there is nothing to release")
	case int64(s.Grant.Token) != o.token:
		return s, refuse(fmt.Sprintf("%s is held with token %d by %s, not with token %d",
			report.Name(name), s.Grant.Token, report.Clean(s.Holder), o.token))
	}
	return s, nil
}

func (o *releaseFlags) confirm(out *report.Printer, s authority.State) error {
	out.Line("%s is held by %s with token %d since %s, for another %s unless it is renewed", report.Name(s.Name),
		report.Clean(s.Holder), s.Grant.Token, report.Since(s.Since, time.Now()), report.Short(s.Left))
	if o.fence == "" {
		out.Line("no --fence is named: the holder can still write until it notices, at the latest in %s", report.Short(s.Left))
	}
	if o.yes {
		return nil
	}
	no := &report.Problem{Code: report.ExitUsage, What: "not released", Data: "nothing was changed"}
	if !supervise.IsTerminal(os.Stdin) {
		no.What, no.Do = "release asks first, and there is no terminal to ask at", "give --yes if you are sure"
		return no
	}
	fmt.Fprint(os.Stderr, "stint: end it? [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return no
}

// end shuts the token out of the store, and then ends the very grant that was
// seen. In the other order the next holder could write beside the old one.
func (o *releaseFlags) end(ctx context.Context, a authority.Authority, out *report.Printer, s authority.State) error {
	r := broken{Name: s.Name, Token: int64(s.Grant.Token), Grant: s.Grant.String(), Holder: s.Holder,
		Reason: o.reason, By: who(), At: time.Now().Format(time.RFC3339)}
	if o.fence == "" {
		r.Left = time.Now().Add(s.Left).Format(time.RFC3339)
	} else {
		if err := bar(ctx, o.fence, s.Name, s.Grant.Token); err != nil {
			return &report.Problem{Code: report.ExitService, What: "the fence could not be raised", Err: err,
				Data: "the lease was not released", Do: "check --fence, or leave it out if the holder is surely dead"}
		}
		r.Fence, r.Raised = authority.Redact(o.fence), int64(s.Grant.Token)+1
		out.Line("token %d is shut out of %s", s.Grant.Token, r.Fence)
	}
	err := a.Release(ctx, authority.Grant{Grant: s.Grant, Name: s.Name, Length: s.Length})
	switch {
	case errors.Is(err, authority.ErrNotHeld):
		return &report.Problem{Code: report.ExitConflict, What: "the lease had ended before it was released", Err: err,
			Data: "the grant that was named is over; nothing else was changed", Do: "see: stint show " + report.Name(s.Name)}
	case err != nil:
		return &report.Problem{Code: report.ExitService, What: "the lease may or may not have been released", Err: err,
			Data: "only the grant that was named can have been ended", Do: "see: stint show " + report.Name(s.Name)}
	}
	out.Line("released by force: %s token %d of %s, by %s at %s: %s", report.Name(s.Name), s.Grant.Token,
		report.Clean(s.Holder), r.By, r.At, report.Clean(o.reason))
	if o.asJSON {
		return report.JSON(os.Stdout, r)
	}
	return nil
}

func bar(ctx context.Context, raw, name string, token fence.Token) error {
	f, err := fenceurl.Open(ctx, raw)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Bar(ctx, name, token)
}

// who is the person, as far as the system knows.
func who() string {
	user := os.Getenv("USER")
	if sudo := os.Getenv("SUDO_USER"); sudo != "" {
		user = sudo
	}
	if user == "" {
		user = fmt.Sprintf("uid %d", os.Getuid())
	}
	host, err := os.Hostname()
	if err != nil {
		return user
	}
	return user + "@" + host
}
