package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
)

// showPlan says what would be done, and where each setting comes from. Nothing is
// opened: an authority's file that is not there is not made.
func (o *runFlags) showPlan(name string, argv []string, path string, flags *pflag.FlagSet, from settings.Origins) error {
	url, err := o.resolve(true)
	if err != nil {
		return err
	}
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = report.Clean(a)
		if a == "" || strings.ContainsAny(a, " \t\n\"'$`\\*?;&|<>()#") {
			quoted[i] = strconv.Quote(a)
		}
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "lease\t%s\ncommand\t%s\t%s\n", report.Name(name), strings.Join(quoted, " "), path)
	effective := map[string]string{
		"authority": authority.Redact(url), "ttl": o.times.TTL.String(), "margin": o.times.Margin.String(),
		"renew": o.times.Renew.String(), "timeout": o.times.Timeout.String(), "grace": o.grace.String(),
		"once-for": o.onceFor.String(),
	}
	if o.fence != "" {
		effective["fence"] = authority.Redact(o.fence)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !settings.HasEnv(f) || f.Name == "dry-run" {
			return
		}
		value, origin := f.Value.String(), from[f.Name]
		if v, ok := effective[f.Name]; ok {
			value = v
		}
		if origin == "" {
			origin = "default"
		}
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Name, report.Clean(value), origin)
	})
	return t.Flush()
}
