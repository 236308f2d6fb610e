package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
)

const snapshotLong = `Writes all data of the nodes, as one of them has it at one moment, into FILE. The
file is checked, and appears complete or not at all. It takes the user root where
users are set up; the file holds the users, and the hashes of their passwords.`

type snapshotFlags struct {
	etcdFlags
	timeout time.Duration
	asJSON  bool
}

func snapshotCommand() *cobra.Command {
	var o snapshotFlags
	c := &cobra.Command{
		Use:     "snapshot FILE",
		Short:   "Save the data of stint serve",
		Long:    snapshotLong,
		Example: "  stint snapshot /backup/stint-$(date +%F).snapshot",
		Args:    exactly("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return o.snapshot(args[0]) },
	}
	o.etcdFlags.flags(c.Flags())
	o.timeout = 5 * time.Minute
	c.Flags().Var(settings.Duration{D: &o.timeout}, "timeout", "how long it may take")
	c.Flags().BoolVar(&o.asJSON, "json", false, "write what it holds as JSON")
	return c
}

func (o *snapshotFlags) snapshot(file string) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return report.Usage(file+" is there, and is no file that could be replaced", "name the FILE that the snapshot is to be written to")
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return report.Usage("there is no folder for "+file+": "+err.Error(), "make it first, or name another FILE")
	}
	s, err := o.dial()
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	// Who is not there is told soon.
	asking, done := context.WithTimeout(ctx, lookTimeout)
	defer done()
	if _, err := s.Client.Status(asking, s.Hosts[0]); err != nil {
		return o.unread(s, "no snapshot was taken", err)
	}
	t, err := etcdnode.Snapshot(ctx, s.Client, file)
	if err != nil {
		return o.unread(s, "no snapshot was taken", err)
	}
	report.NewPrinter(os.Stderr).Line("saved revision %d (%s, %d bytes) to %s", t.Revision, counted(t.Keys, "key"), t.Bytes, t.File)
	if o.asJSON {
		return report.JSON(os.Stdout, t)
	}
	return nil
}
