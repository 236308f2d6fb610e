package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const serveUserAddLong = `Makes a user that may take leases under the authority's prefix (stint, unless the
URL names another) and do nothing else; or gives the user of that name another
password. Clients then write

  etcds://NAME@HOST:2379?ca=ca.pem&password-file=FILE

Without --password-file the user has no password and shows a certificate of the
nodes' --client-ca instead, whose common name is NAME.

The first user is root, who may do everything: adding it switches users on, and
from then on every client has to say who it is. --root-password-file of "stint
serve" does the same at a node's first start.`

type userFlags struct {
	etcdFlags
	password string
}

func serveUserCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "user",
		Short: "Say who may take leases",
		Args:  noSuchCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var o, ls, rm, passwd userFlags
	add := o.withPassword(o.ofOne(&cobra.Command{
		Use:   "add NAME",
		Short: "Make a user, or change its password",
		Long:  serveUserAddLong,
		Example: `  stint serve user add root --password-file root.pw
  stint serve user add billing --password-file billing.pw \
      --authority 'etcd://root@127.0.0.1:2379?password-file=/etc/stint/root.pw'`,
	}, o.add))
	c.AddCommand(add, ls.listCommand(), rm.removeCommand(), passwd.passwdCommand())
	return c
}

func (o *userFlags) add(name string) error {
	password := ""
	switch {
	case name == "":
		return report.Usage("the NAME is empty", "see: stint serve user add --help")
	case o.password != "":
		var err error
		if password, err = passwordFrom(o.password); err != nil {
			return err
		}
	case name == etcdnode.Root:
		return report.Usage("root needs --password-file", "see: stint serve user add --help")
	}
	return o.ask(func(ctx context.Context, s *etcdlease.Servers) error { return o.addTo(ctx, s, name, password) })
}

func (o *userFlags) addTo(ctx context.Context, s *etcdlease.Servers, name, password string) error {
	out := report.NewPrinter(os.Stderr)
	err := etcdnode.AddUser(ctx, s.Client, name, password, s.Prefix)
	if errors.Is(err, etcdnode.ErrNoRoot) {
		return &report.Problem{Code: report.ExitConfig, What: "users are not set up on these nodes", Data: "nothing was changed",
			Do: "make the first one: stint serve user add root --password-file FILE"}
	}
	if err != nil {
		return o.refused(s, "the user could not be made", err)
	}
	if password != "" {
		if err := o.logsIn(ctx, name); err != nil {
			return err
		}
	}
	switch {
	case name == etcdnode.Root:
		out.Line("users are set up: from now on every client has to say who it is")
	case password == "":
		out.Line("%s may take leases under %s, by a certificate of the nodes' --client-ca with that common name", name, s.Prefix)
	default:
		out.Line("%s may take leases under %s", name, s.Prefix)
	}
	return nil
}
