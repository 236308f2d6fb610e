package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

type build struct {
	Version     string   `json:"version"`
	Commit      string   `json:"commit,omitempty"`
	Go          string   `json:"go"`
	Platform    string   `json:"platform"`
	Authorities []string `json:"authorities"` // URL schemes that are linked in
}

func version() build {
	b := build{Version: "(unreleased)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Authorities: authority.Schemes()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Say which stint this is",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			b := version()
			if asJSON {
				return report.JSON(os.Stdout, b)
			}
			fmt.Printf("stint %s %s %s\n", b.Version, b.Go, b.Platform)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}
