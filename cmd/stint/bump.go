package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/sqlite/sqlitelease"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/fence"
)

const bumpLong = `Raises the token counter of an authority's file, after the file was restored from
a backup, copied or moved.

Such a file would hand out again the tokens that were handed out since the copy
was made, and a fence would take a new holder for an old one. So stint refuses
it until its counter is above every token that was ever handed out. Make sure
first that nobody uses the original any more.

Leases that the file shows as held are waited out for one length, and cannot be
renewed. A file that was not moved keeps its leases.

An authority on etcd is bumped where it is restored: stint restore --bump.`

type bumpFlags struct {
	place
	by     int64
	asJSON bool
}

// bumped is the JSON of stint bump.
type bumped struct {
	Authority string `json:"authority"`
	Before    int64  `json:"counter_before"`
	After     int64  `json:"counter_after"`
}

func bumpCommand() *cobra.Command {
	var o bumpFlags
	c := &cobra.Command{
		Use:     "bump",
		Short:   "Raise the token counter of a file that was restored or copied",
		Long:    bumpLong,
		Example: "  stint bump --authority sqlite:///srv/leases.db",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return o.bump() },
	}
	o.place.flags(c.Flags())
	c.Flags().Int64Var(&o.by, "by", int64(sqlitelease.BumpBy), "by how much: further than the file got since the backup")
	c.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	return c
}

func (o *bumpFlags) bump() error {
	raw, err := o.resolve(false)
	if err != nil {
		return err
	}
	path, ok := filePath(raw)
	switch {
	case isEtcd(raw):
		return &report.Problem{Code: report.ExitConfig, What: "the tokens of " + authority.Redact(raw) + " are etcd's own revisions, and only a restore moves them",
			Data: "nothing was changed", Do: "after a loss: stint restore FILE --bump 1000000; to end a lease by force: stint release NAME"}
	case !ok:
		return &report.Problem{Code: report.ExitConfig, What: "only an authority in a file can be bumped, not " + authority.Redact(raw),
			Data: "nothing was changed", Do: "give --authority sqlite:///path/leases.db"}
	case o.by < 1:
		return report.Usage("--by must be at least 1", "leave it out for the default")
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	before, after, err := sqlitelease.Bump(ctx, path, fence.Token(o.by))
	if err != nil {
		p := &report.Problem{Code: report.ExitService, What: "the counter was not raised", Err: err}
		if errors.Is(err, authority.ErrInvalid) {
			p.Code = report.ExitUsage
		}
		return p
	}
	report.NewPrinter(os.Stderr).Line("the counter of %s was raised from %d to %d by %s at %s",
		authority.Redact(raw), before, after, who(), time.Now().Format(time.RFC3339))
	if o.asJSON {
		return report.JSON(os.Stdout, bumped{authority.Redact(raw), int64(before), int64(after)})
	}
	return nil
}
