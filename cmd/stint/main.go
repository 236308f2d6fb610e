// Command stint runs a job under a fenced lease: one holder at a time, who has
// stopped before anyone else is let in.
package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/cmd/stint/internal/warden"
)

// commands are stint's own; each adds itself by one line.
var commands = []func() *cobra.Command{
	runCommand,
	okCommand,
	beatCommand,
	lsCommand,
	showCommand,
	releaseCommand,
	bumpCommand,
	migrateCommand,
	serveCommand,
	snapshotCommand,
	restoreCommand,
	demoCommand,
	simCommand,
	versionCommand,
}

// exitCode is an error that was already told, or that has nothing to tell: the
// command's own exit code.
type exitCode int

func (exitCode) Error() string { return "" }

func main() {
	if len(os.Args) > 1 && os.Args[1] == warden.Argument {
		os.Exit(warden.Main())
	}
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns the exit code.
func execute(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	c, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	out := report.NewPrinter(os.Stderr)
	f := c.Flags().Lookup("log-format")
	out.JSON = f != nil && f.Value.String() == "json"
	out.Error(err)
	if p, ok := errors.AsType[*report.Problem](err); ok {
		return p.Code
	}
	return report.ExitUsage // cobra's own: an unknown command or flag
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "stint",
		Short: "Run a job under a fenced lease",
		Long: `stint runs a job under a fenced lease: one holder at a time, who has stopped
by its own clock before anyone else is let in, with a token that the resource
checks.

` + exitCodesHelp,
		Example: `  stint run nightly -- ./nightly.sh        wait for the lease, then run
  stint run -n nightly -- ./nightly.sh     or give up at once (exit code 75)
  stint ls                                 who holds what`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version().Version,
		Args:          noSuchCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if c.CommandPath() == "stint run" { // its flags are not all read yet
			return nil
		}
		return fromEnv(c.Flags())
	}
	root.SetVersionTemplate("stint {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return report.Usage(settings.FlagError(err), "see: "+c.CommandPath()+" --help")
	})
	for _, command := range commands {
		root.AddCommand(command())
	}
	root.SetHelpCommand(helpCommand())
	addCompletion(root)
	return root
}

func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	do := "see: " + c.CommandPath() + " --help"
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		stem := c.CommandPath() + " "
		do = "did you mean: " + stem + strings.Join(near, ", "+stem) + "?"
	}
	return report.Usage("there is no command "+c.CommandPath()+" "+args[0], do)
}

// helpCommand and completionCommand are cobra's, but know a mistake when they
// see one.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if about == nil || err != nil || len(rest) > 0 && about.HasSubCommands() {
				if about == nil || len(rest) == 0 {
					about, rest = c.Root(), args
				}
				return noSuchCommand(about, rest)
			}
			return about.Help()
		},
	}
}

func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noSuchCommand, func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// exactly wants n arguments and names them in its error.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return report.Usage(c.CommandPath()+" takes "+want, "see: "+c.CommandPath()+" --help")
	}
}

const exitCodesHelp = `Exit codes of stint itself:
   64  the command line is wrong
   69  the authority or the fence could not be used; or CMD has succeeded, and
       that could not be recorded (the message says which)
   75  the lease is held by another (-n, or -w ran out); -E changes it
   76  the lease could not be kept: the command was ended; or it gave no sign of
       life (--watchdog)
   78  the configuration is wrong: no authority named, a bad STINT_ variable or
       line of --config, a --fence whose store is missing or no database
  126  the command cannot be run
  127  the command was not found
128+n  stint or the command was ended by signal n
Every other code is the command's own.`
