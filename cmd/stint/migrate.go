package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const migrateLong = `Makes the fence's tables and its SQL functions in the database that holds the data,
and the table of what --once records, or brings those of an older stint up to date.
It may be repeated, and run by many at once.

URL is sqlite:///path/store.db, postgres://user:password@host/database or
mariadb://user:password@host/database; ?table=NAME takes another table than
stint_fence. --fence and the libraries do the same when they begin, where they
have the right to; with stint migrate they need no right to make tables.

With --print the statements are written to the output in place of being run, for
those who keep their migrations elsewhere. Each may be repeated.

With --protect a trigger refuses every write to TABLE that was not admitted by a
grant of the fence NAME (TABLE=NAME), or of the fence that the row itself names in
a column (TABLE:COLUMN). Not on SQLite.`

type migrateFlags struct {
	print   bool
	protect []string
}

func migrateCommand() *cobra.Command {
	var o migrateFlags
	c := &cobra.Command{
		Use:   "migrate URL",
		Short: "Make the fence's tables and SQL functions in a database",
		Long:  migrateLong,
		Example: `  stint migrate postgres://app@db.example/billing
  stint migrate mariadb://app@db.example/billing --print > fence.sql
  stint migrate postgres://app@db.example/billing --protect invoices=billing`,
		Args: exactly("URL"),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	c.Flags().BoolVar(&o.print, "print", false, "write the statements instead of running them")
	c.Flags().StringArrayVar(&o.protect, "protect", nil, "TABLE=NAME or TABLE:COLUMN whose writes need an admitted grant; may be given several times")
	return c
}

func (o *migrateFlags) run(raw string) error {
	var protect []fenceurl.Protect
	for _, p := range o.protect {
		table, name, named := strings.Cut(p, "=")
		table, column, _ := strings.Cut(table, ":")
		if table == "" || named == (column != "") || named && name == "" {
			return report.Usage("--protect "+p+" is neither TABLE=NAME nor TABLE:COLUMN", "give --protect invoices=billing")
		}
		protect = append(protect, fenceurl.Protect{Table: table, Name: name, Column: column})
	}
	if o.print {
		script, err := fenceurl.Plan(raw, protect)
		if err != nil {
			return migrateProblem(err)
		}
		_, err = fmt.Fprint(os.Stdout, script)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	store, err := fenceurl.Open(ctx, raw)
	if err != nil {
		return migrateProblem(err)
	}
	defer store.Close()
	if err := store.PrepareOnce(ctx); err != nil {
		return migrateProblem(err)
	}
	if len(protect) > 0 {
		if err := store.Guard(ctx, raw, protect); err != nil {
			return migrateProblem(err)
		}
	}
	report.NewPrinter(os.Stderr).Line("the fence of %s is up to date", authority.Redact(raw))
	for _, p := range protect {
		report.NewPrinter(os.Stderr).Line("writes to %s are refused without an admitted grant of %s", p.Table, cmp.Or(p.Name, "the row's "+p.Column))
	}
	return nil
}

func migrateProblem(err error) error {
	p := &report.Problem{Code: report.ExitService, What: "the fence was not brought up to date", Err: err,
		Data: "no data was touched; what was done of it may stand, and it can be repeated"}
	if errors.Is(err, authority.ErrInvalid) {
		p.Code = report.ExitUsage
	}
	return p
}
