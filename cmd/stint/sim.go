package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/render"
	"github.com/stint-dev/stint/sim/scenarios"
	"github.com/stint-dev/stint/sim/script"
)

// simCommands are the parts of stint sim; each adds itself by one line.
var simCommands = []func() *cobra.Command{
	simListCommand,
	simRunCommand,
}

func simCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sim",
		Short: "Simulate leases, with everything that can go wrong",
		Long: `Runs the protocol's own machines in a simulated world: machines with clocks, a
network that fails, a lock service on Raft, and stores. Nothing real is touched,
and the same seed gives the same run.`,
		Example: `  stint sim run story                      the billing job changes hands
  stint sim run story --without fence      and what the fence is for
  stint sim list                           everything else that can be shown`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, command := range simCommands {
		c.AddCommand(command())
	}
	return c
}

// simulated is a scenario in the JSON of stint sim list.
type simulated struct {
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Settings map[string]string `json:"settings"`
	Without  []string          `json:"without"`
	Variants []string          `json:"variants"`
}

func simListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios",
		Args:  exactly(),
		RunE:  func(*cobra.Command, []string) error { return simList(asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array")
	return c
}

func simList(asJSON bool) error {
	all := []simulated{}
	for _, name := range scenarios.Names() {
		s, err := scenarios.Load(name, script.Change{})
		if err != nil {
			return err
		}
		one := simulated{Name: name, Title: s.Title, Settings: map[string]string{}, Without: []string{}, Variants: []string{}}
		for _, v := range s.Settings {
			one.Settings[v.Name] = v.Text
		}
		for _, r := range s.Without.Each() {
			one.Without = append(one.Without, r.String())
		}
		for _, v := range s.Variants {
			one.Variants = append(one.Variants, v.String())
		}
		all = append(all, one)
	}
	if asJSON {
		return report.JSON(os.Stdout, all)
	}
	return result(func(out *bufio.Writer) {
		width := 0
		for _, s := range all {
			width = max(width, len(s.Name))
		}
		for _, s := range all {
			fmt.Fprintf(out, "%-*s  %s\n", width, s.Name, s.Title)
		}
	})
}

// result writes a result to standard output. That nobody can read it is an error,
// though not one of the command line.
func result(write func(out *bufio.Writer)) error {
	out := bufio.NewWriter(os.Stdout)
	write(out) // the writer keeps its first error
	if err := out.Flush(); err != nil {
		return &report.Problem{Code: 1, What: "the result could not be written", Err: err}
	}
	return nil
}

type simRunFlags struct {
	seed    uint64
	set     []string
	without []string
	json    bool
	detail  bool
}

func simRunCommand() *cobra.Command {
	var o simRunFlags
	c := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a scenario and say what happened, and why",
		Long: `Runs a scenario (stint sim list names them) or a scenario file, and shows what
happened: on a terminal a lane for each machine, otherwise plain lines. Refused
writes and overlaps are marked. A thick lane holds a lease as far as it knows, a
dotted one is paused, an empty one is down.

Settings that every scenario has: ttl, margin, renew, timeout, until, delay,
jitter, loss. Others are the scenario's own; a wrong one is refused with what is
allowed.

Rules that can be switched off:
  ` + wrapNames(protocol.RuleNames()) + `

The exit code is 1 where the scenario's own figures do not come out, which can
only happen when it is run unchanged.`,
		Example: `  stint sim run story
  stint sim run story --set pause=5s,delay=20ms
  stint sim run fast-claimant --without clock-free --set offset=3s,claim-margin=4s
  stint sim run story --json | jq -c 'select(.mark)'`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	o.flags(c.Flags())
	return c
}

func (o *simRunFlags) flags(f *pflag.FlagSet) {
	f.Var(settings.Whole{N: &o.seed}, "seed", "of everything that is random")
	f.StringArrayVar(&o.set, "set", nil, "replace settings: NAME=VALUE,…")
	f.StringArrayVar(&o.without, "without", nil, "switch rules off: RULE,…")
	f.BoolVar(&o.json, "json", false, "write JSON lines: every event, and the figures at the end")
	f.BoolVar(&o.detail, "detail", false, "show events that only a debugging reader wants, too")
}

func wrapNames(names []string) string {
	var b strings.Builder
	n := 0
	for i, name := range names {
		if i > 0 {
			b.WriteString(",")
			n++
		}
		if n+1+len(name) > 74 {
			b.WriteString("\n  ")
			n = 0
		} else if i > 0 {
			b.WriteString(" ")
			n++
		}
		b.WriteString(name)
		n += len(name)
	}
	return b.String()
}

// change reads --set and --without.
func (o *simRunFlags) change() (script.Change, error) {
	sets, err := script.ParseSets(o.set)
	if err != nil {
		return script.Change{}, report.Usage("--set "+err.Error(), "see: stint sim run --help")
	}
	off, err := protocol.ParseRules(strings.Join(o.without, ","))
	if err != nil {
		return script.Change{}, report.Usage("--without: "+err.Error(), "see: stint sim run --help")
	}
	return script.Change{Set: sets, Without: off}, nil
}

func (o *simRunFlags) load(name string, change script.Change) (*script.Script, error) {
	if !strings.ContainsAny(name, "/.") {
		return scenarios.Load(name, change)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return script.Parse(name, string(text), change)
}

func (o *simRunFlags) run(name string) error {
	if ok, err := o.runPlan(name); ok {
		return err
	}
	change, err := o.change()
	if err != nil {
		return err
	}
	s, err := o.load(name, change)
	if err != nil {
		return report.Usage(err.Error(), "see: stint sim list")
	}
	options := play.Options{Seed: o.seed, Detail: o.detail}
	r := play.Run(s, options)
	var variants []*play.Result
	if !s.Changed && !o.json { // beside a changed run they would compare two things at once
		if variants, err = play.Variants(s, options); err != nil {
			return err
		}
	}
	var plain *play.Result
	if (s.Changed || o.seed != 0) && !o.json {
		if s, err = o.load(name, script.Change{}); err != nil {
			return err
		}
		plain = play.Run(s, play.Options{Detail: o.detail})
	}
	if err := o.show(r, variants, plain, change); err != nil {
		return err
	}
	if missing := r.Missing(); len(missing) > 0 && !r.Script.Changed && o.seed == 0 {
		return &report.Problem{Code: 1, What: "the scenario's figures did not come out: " + strings.Join(missing, "; ")}
	}
	return nil
}

// show writes a run, and beside it either its variants, or, where it is changed
// itself, whether that made a difference to the plain one.
func (o *simRunFlags) show(r *play.Result, variants []*play.Result, plain *play.Result, change script.Change) error {
	return result(func(out *bufio.Writer) {
		if o.json {
			out.Write(render.JSON(r))
			return
		}
		fmt.Fprintf(out, "%s\n\n", render.Head(r.Script))
		if style, ok := lanesStyle(); ok {
			out.WriteString(render.Lanes(r, style))
		} else {
			out.WriteString(render.Lines(r))
		}
		fmt.Fprintf(out, "\n%s\n%s%s", render.Facts(r), render.Close(r), render.Compare(r, variants))
		if plain != nil {
			if bytes.Equal(render.JSON(r), render.JSON(plain)) {
				fmt.Fprintf(out, "\nNothing is different from: %s\n", plain.Script.Command(0, nil, 0))
			}
			fmt.Fprintf(out, "\nAgain: %s\n", r.Script.Command(o.seed, change.Set, change.Without))
		}
	})
}

// lanesStyle tells how to draw lanes, where the output is a terminal.
func lanesStyle() (render.Style, bool) {
	fd := int(os.Stdout.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return render.Style{}, false
	}
	width, _, err := term.GetSize(fd)
	if err != nil {
		width = 80
	}
	return render.Style{Width: width, Colour: os.Getenv("NO_COLOR") == "", ASCII: !unicodeLocale()}, true
}

// unicodeLocale tells whether the terminal shows more than ASCII.
func unicodeLocale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}
