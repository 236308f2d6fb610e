package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
	"github.com/stint-dev/stint/fence"
)

const runLong = `Waits for the lease NAME, runs CMD while it holds it, and releases it when CMD
and everything that CMD started is gone. CMD is run as it is, without a shell.
Flags stand before CMD; everything after CMD is CMD's own.

CMD runs in a process group of its own; with a terminal on standard input that
group gets the foreground. TERM, INT, HUP, QUIT, USR1, USR2, TSTP, CONT and
WINCH are passed on to it. stint's exit code is CMD's, and 128+n when signal n
ended it.

CMD is told what it holds:
  STINT_NAME    the name of the lease
  STINT_TOKEN   the number that orders its holders, for people
  STINT_GRANT   token.nonce: what a resource checks (see --fence)
  STINT_SOCKET  where "stint ok" asks whether the lease still holds
  STINT_OUTER   the grants of all stint runs around CMD: a stint run in CMD that
                would wait for one of them refuses instead

When the lease cannot be kept, CMD's group gets TERM (and CONT) --grace before
the stop time, and KILL in time to be gone by the stop time; the exit code is
76. The stop time is --margin before the authority lets go. A lease that ended
at once, broken by "stint release", ends CMD at once.

On Linux, processes that leave the group (setsid, a daemon) are found and ended
too, and the lease is kept until the last of them is gone. On macOS only the
group is watched.

A second stint, the guard process, waits beside CMD. When stint itself is killed
with KILL it ends CMD: TERM at once, KILL after --grace, by the stop time. When
stint is frozen (SIGSTOP), it does so when the stop time comes. If both are killed
at the same moment, the kernel kills CMD's group (Linux, without TERM); what left
the group goes on, and only a fence keeps what it still writes from doing harm.

With --watchdog, the lease is renewed only while CMD says that it lives. It gives
signs of life as a service of systemd does: WATCHDOG=1 to NOTIFY_SOCKET, or by
"stint beat". A CMD that gives none within the time, counted from its start, is
ended like one whose lease is lost: exit code 76.

With --once KEY, a CMD that ended with exit code 0 is not started again under the
same KEY; the exit code is then 0, or --skip-exit-code. With --fence, the record is
written in the transaction that sets DONE; otherwise by the authority, after CMD
has ended. With --at-least, the lease is kept after a success, against a host whose
clock is late; a signal ends that, and the lease is given back.

With --fence, the token is written to the store that CMD works on, before CMD
starts: from then on the store refuses what an earlier holder still sends. Exit
code 0 marks the job DONE; any other leaves its claim for a sweeper.

Every flag can be set by a variable: --no-wait is STINT_NO_WAIT=true, --ttl is
STINT_TTL. The flag wins, then the variable, then the file of --config, whose lines
are like "ttl = 20s". An empty variable is one that is not set; only an empty
STINT_FENCE or STINT_ONCE is refused, since the job would run without it.

` + exitCodesHelp

const runExample = `  # a cron job: of all the runs that start on this host, one works at a time
  stint run -n --authority sqlite:///srv/leases.db nightly ./nightly.sh

  # wait at most a minute; 0 instead of 75 when another has it
  stint run -w 1m -E 0 nightly ./nightly.sh

  # the store refuses a frozen worker's late write
  stint run --fence sqlite:///srv/store.db billing -- ./bill --month 2026-11

  # on several hosts: each night once, however different their clocks
  stint run --once "$(date -u +%F)" --at-least 50m nightly ./nightly.sh

  # in CMD, before each step
  stint ok || exit 1`

type runFlags struct {
	place
	ttl, margin, renew, timeout time.Duration
	noWait                      bool
	wait                        time.Duration
	waitGiven                   bool
	conflictCode                int
	grace                       time.Duration
	graceGiven                  bool
	watchdog                    time.Duration // zero: none
	once                        string
	onceFor, atLeast            time.Duration
	skipCode                    int
	dryRun                      bool
	logFormat                   string
	config                      string
	fence                       string
	quiet                       bool
	times                       stint.Options // with the defaults filled in
}

func (o *runFlags) flags(f *pflag.FlagSet) {
	o.place.flags(f)
	duration := func(p *time.Duration, name, short, usage string) {
		f.VarP(settings.Duration{D: p}, name, short, usage)
	}
	duration(&o.ttl, "ttl", "", "lease length: how long the authority keeps the lease without a renewal (default 10s)")
	duration(&o.margin, "margin", "", "how long before the authority lets go CMD has been ended (default 0.2 of --ttl)")
	duration(&o.renew, "renew", "", "time between renewals (default 0.3 of --ttl)")
	duration(&o.timeout, "timeout", "", "bound of one request to the authority (default 0.15 of --ttl, at most 5s)")
	duration(&o.grace, "grace", "", "time from TERM to the stop time when the lease cannot be kept (default 1s, at most 0.1 of --ttl)")
	duration(&o.watchdog, "watchdog", "", "end CMD unless it gives a sign of life (stint beat, WATCHDOG=1) within this time (default: none is wanted)")
	f.BoolVarP(&o.noWait, "no-wait", "n", false, "give up at once when another holds the lease")
	duration(&o.wait, "wait", "w", "wait at most so long for the lease; 0 is --no-wait (default: for ever)")
	f.IntVarP(&o.conflictCode, "conflict-exit-code", "E", report.ExitConflict, "exit code when another holds the lease")
	f.StringVar(&o.fence, "fence", "", "URL of the store whose fence is raised before CMD starts: sqlite:///path/store.db, postgres://user:password@host/database or mariadb://..., each with [?table=stint_fence]")
	f.StringVar(&o.once, "once", "", "start CMD only if KEY, as in 2026-11-29, is not recorded done for NAME; exit code 0 of CMD records it")
	duration(&o.onceFor, "once-for", "", "how long the authority keeps the record of --once (default 168h); with --fence it is kept for ever")
	f.IntVar(&o.skipCode, "skip-exit-code", 0, "exit code when --once finds KEY recorded done")
	duration(&o.atLeast, "at-least", "", "keep the lease until this long after CMD was started, if it ended with exit code 0")
	f.StringVar(&o.config, "config", "", "file of settings, one \"name = value\" a line; a flag and a variable win over it")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the settings and where each comes from; take no lease and start nothing")
	f.StringVar(&o.logFormat, "log-format", "text", "how stint's own messages are written: text or json")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "write nothing but errors")
}

func runCommand() *cobra.Command {
	var o runFlags
	c := &cobra.Command{
		Use:                   "run NAME [flags] [--] CMD [ARGS...]",
		Short:                 "Run a command while holding a lease",
		Long:                  runLong,
		Example:               runExample,
		DisableFlagsInUseLine: true,
	}
	c.Flags().SetInterspersed(false)
	o.flags(c.Flags())
	c.ValidArgsFunction = o.completeNames(cobra.ShellCompDirectiveDefault)
	c.RunE = func(c *cobra.Command, args []string) error {
		name, argv, err := splitRun(c, args)
		if err != nil || argv == nil {
			return err
		}
		from, err := o.complete(c.Flags(), name)
		if err != nil {
			return err
		}
		path, err := supervise.LookPath(argv[0])
		switch {
		case err != nil:
			return cannotStart(err)
		case o.dryRun:
			return o.showPlan(name, argv, path, c.Flags(), from)
		}
		return o.run(name, argv, path)
	}
	return c
}

// splitRun reads the flags between NAME and CMD too. argv is nil when help was
// asked for and given.
func splitRun(c *cobra.Command, args []string) (name string, argv []string, err error) {
	use := "write: stint run NAME [flags] [--] CMD [ARGS...]"
	if len(args) == 0 {
		return "", nil, report.Usage("run needs a NAME and a CMD", use)
	}
	name, argv = args[0], args[1:]
	if c.Flags().ArgsLenAtDash() < 0 { // after -- nothing is a flag
		if err := c.Flags().Parse(argv); err != nil {
			return "", nil, report.Usage(settings.FlagError(err), "see: stint run --help")
		}
		if help, _ := c.Flags().GetBool("help"); help {
			return "", nil, c.Help()
		}
		argv = c.Flags().Args()
	}
	if err := fence.CheckName(name); err != nil {
		return "", nil, report.Usage(err.Error(), use)
	}
	if len(argv) == 0 || argv[0] == "" {
		return "", nil, report.Usage("run needs a CMD after the name "+report.Name(name), use)
	}
	return name, argv, nil
}

// complete adds the environment and the file, and refuses what cannot be meant.
func (o *runFlags) complete(f *pflag.FlagSet, name string) (settings.Origins, error) {
	from, err := resolve(f)
	if err != nil {
		return nil, err
	}
	if err := o.check(f); err != nil {
		return nil, err
	}
	return from, o.checkOnce(name)
}

// check refuses what cannot be meant.
func (o *runFlags) check(f *pflag.FlagSet) error {
	o.waitGiven, o.graceGiven = f.Changed("wait"), f.Changed("grace")
	if o.noWait && o.wait > 0 {
		return report.Usage("--no-wait and --wait "+o.wait.String()+" exclude each other", "give one of them")
	}
	for flag, code := range map[string]int{"conflict-exit-code": o.conflictCode, "skip-exit-code": o.skipCode} {
		if code < 0 || code > 255 {
			return report.Usage(fmt.Sprintf("--%s %d is not an exit code", flag, code), "give one from 0 to 255")
		}
	}
	if o.logFormat != "text" && o.logFormat != "json" {
		return report.Usage(fmt.Sprintf("--log-format %q is neither text nor json", o.logFormat), "give one of them")
	}
	for flag, d := range map[string]time.Duration{"ttl": o.ttl, "margin": o.margin, "renew": o.renew, "timeout": o.timeout} {
		if f.Changed(flag) && d == 0 {
			return report.Usage("--"+flag+" 0: a lease has to last some time, and so have its parts", "leave the flag out for the default")
		}
	}
	var err error
	if o.times, err = (stint.Options{TTL: o.ttl, Margin: o.margin, Renew: o.renew, Timeout: o.timeout}).Effective(); err != nil {
		return &report.Problem{Code: report.ExitUsage, Err: err, Data: "nothing was done",
			Do: "see --ttl, --margin, --renew and --timeout in: stint run --help"}
	}
	if err := checkFence(o.fence); err != nil {
		return err
	}
	return o.checkGrace()
}

// checkFence refuses a wrong URL before anything is waited for or taken.
func checkFence(raw string) error {
	if raw == "" {
		return nil
	}
	if err := fenceurl.Check(raw); err != nil {
		return &report.Problem{Code: report.ExitConfig, Err: err, Data: "nothing was done", Do: "check --fence and STINT_FENCE"}
	}
	return nil
}

// fromEnv is resolve for those who do not care where a value comes from.
func fromEnv(f *pflag.FlagSet) error {
	_, err := resolve(f)
	return err
}

// resolve reads STINT_ variables, and the file of --config, for the flags that
// were not given. A flag that was given empty is refused: it would do without
// what it was written for.
func resolve(f *pflag.FlagSet) (settings.Origins, error) {
	if name := settings.EmptyGiven(f, "authority", "fence", "once", "config"); name != "" {
		return nil, report.Usage("--"+name+" is empty", "give its value, or leave it out (was a variable of the script not set?)")
	}
	from, err := settings.Resolve(f)
	if err != nil {
		p := &report.Problem{Code: report.ExitConfig, Err: err, Data: "nothing was done", Do: "correct the variable or unset it"}
		if _, ok := errors.AsType[*settings.FileError](err); ok {
			p.Do = "correct the file; stint run --dry-run shows what it comes to"
		}
		return nil, p
	}
	return from, nil
}

// checkGrace sets the default, and refuses a grace in which a lease that is
// renewed in time, or at the second try, would tell CMD to stop.
func (o *runFlags) checkGrace() error {
	t := o.times
	if !o.graceGiven {
		o.grace = min(time.Second, t.TTL/10)
	}
	if room := t.TTL - t.Margin - t.Renew - t.Timeout; o.grace >= room && (o.graceGiven || room > 0) {
		return report.Usage(
			fmt.Sprintf("--grace %v is too long: it must be less than ttl - margin - renew - timeout = %v - %v - %v - %v = %v",
				o.grace, t.TTL, t.Margin, t.Renew, t.Timeout, room),
			"otherwise one late renewal ends CMD: give a longer --ttl or a shorter --grace")
	}
	return nil
}

// holder says who asks, for people.
func holder(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	// The command's name only: its arguments may be secret.
	return fmt.Sprintf("%s pid %d (%s)", host, os.Getpid(), filepath.Base(command))
}
