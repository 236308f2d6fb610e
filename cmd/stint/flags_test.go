package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/cmd/stint/internal/settings"
)

// everyCommand calls f for each of stint's own commands that does something.
func everyCommand(f func(*cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() && !c.Hidden && !c.HasSubCommands() {
			f(c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand())
}

// sample is a value of the flag's type that is not its default, and a bad one
// where there is any.
func sample(f *pflag.Flag) (good, bad string) {
	if f.Name == "config" {
		return os.DevNull, "" // a file is read
	}
	switch f.Value.Type() {
	case "bool":
		return "true", "maybe"
	case "int", "int64", "uint64":
		return "7", "seven"
	case "duration":
		return "7s", "7"
	}
	return "text", ""
}

func TestEveryFlagHasAVariable(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		t.Run(c.CommandPath(), func(t *testing.T) {
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !settings.HasEnv(f) {
					return
				}
				name := "STINT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
				good, bad := sample(f)
				if bad != "" {
					t.Setenv(name, bad)
					if err := fromEnv(c.LocalFlags()); err == nil || !strings.Contains(err.Error(), name) {
						t.Errorf("%s=%s: got %v; want an error that names it", name, bad, err)
					}
				}
				t.Setenv(name, good)
				if err := fromEnv(c.LocalFlags()); err != nil || strings.Trim(f.Value.String(), "[]") != good { // a list is written in brackets
					t.Errorf("%s=%s: --%s is %s (%v)", name, good, f.Name, f.Value, err)
				}
				t.Setenv(name, "")
			})
		})
	})
}

// What run tells its command is not taken for a flag of a stint inside it.
func TestNoFlagIsSetByWhatRunTellsItsCommand(t *testing.T) {
	told := []string{"STINT_NAME", "STINT_TOKEN", "STINT_GRANT", "STINT_SOCKET", "STINT_OUTER"}
	everyCommand(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(told, settings.EnvName(f.Name)) {
				t.Errorf("%s --%s is set by %s", c.CommandPath(), f.Name, settings.EnvName(f.Name))
			}
		})
	})
}

func TestEveryListingSpeaksJSON(t *testing.T) {
	listings := map[string]bool{"ls": false, "show": false, "version": false, "ok": false, "release": false, "bump": false, "billing": false}
	everyCommand(func(c *cobra.Command) {
		if _, ok := listings[c.Name()]; ok {
			listings[c.Name()] = c.Flags().Lookup("json") != nil
		}
	})
	for name, speaks := range listings {
		if !speaks {
			t.Errorf("stint %s has no --json", name)
		}
	}
}
