package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const serveUserRmLong = `Takes the user NAME away. Leases that are held with it are not renewed any more:
their holders stop at their stop times. The user root stays as long as users are
switched on.`

const serveUserPasswdLong = `Gives the user NAME, which has to be there, another password. Clients read their
password file again by themselves: a client whose file is changed before the stop
time of its leases loses none. It tries the password that worked last, too, so
the file may also be changed first.`

func (o *userFlags) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the users, and what they may do",
		Args:  exactly(),
		RunE:  func(*cobra.Command, []string) error { return o.list(asJSON) },
	}
	o.etcdFlags.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array")
	return c
}

func (o *userFlags) removeCommand() *cobra.Command {
	return o.ofOne(&cobra.Command{Use: "rm NAME", Short: "Take a user away", Long: serveUserRmLong}, o.remove)
}

func (o *userFlags) passwdCommand() *cobra.Command {
	return o.withPassword(o.ofOne(&cobra.Command{Use: "passwd NAME", Short: "Give a user another password", Long: serveUserPasswdLong}, o.passwd))
}

// ofOne is a command about one user.
func (o *userFlags) ofOne(c *cobra.Command, run func(name string) error) *cobra.Command {
	c.Args, c.ValidArgsFunction = exactly("NAME"), cobra.NoFileCompletions
	c.RunE = func(_ *cobra.Command, args []string) error { return run(args[0]) }
	o.etcdFlags.flags(c.Flags())
	return c
}

func (o *userFlags) withPassword(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&o.password, "password-file", "", "file with the password, one line")
	return c
}

func (o *userFlags) list(asJSON bool) error {
	var users []etcdnode.User
	if err := o.ask(func(ctx context.Context, s *etcdlease.Servers) (err error) {
		if users, err = etcdnode.Users(ctx, s.Client); err != nil {
			return o.unread(s, "the users could not be listed", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if asJSON {
		return report.JSON(os.Stdout, users)
	}
	return writeUsers(os.Stdout, users)
}

func writeUsers(w io.Writer, users []etcdnode.User) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "USER\tMAY")
	for _, u := range users {
		var may []string
		if u.Root {
			may = append(may, "do everything")
		}
		if len(u.Prefixes) > 0 {
			may = append(may, "take leases under "+strings.Join(u.Prefixes, ", "))
		}
		if u.Others > 0 {
			may = append(may, fmt.Sprintf("something else in etcd (%d)", u.Others))
		}
		if len(may) == 0 {
			may = append(may, "do nothing")
		}
		fmt.Fprintf(t, "%s\t%s\n", report.Clean(u.Name), report.Clean(strings.Join(may, "; ")))
	}
	return t.Flush()
}

func (o *userFlags) remove(name string) error {
	if name == etcdnode.Root {
		return report.Usage("root cannot be taken away: nobody could look after the users any more", "see: stint serve user rm --help")
	}
	if err := o.ask(func(ctx context.Context, s *etcdlease.Servers) error {
		err := etcdnode.RemoveUser(ctx, s.Client, name)
		return o.noUser(s, name, "the user could not be taken away", err)
	}); err != nil {
		return err
	}
	report.NewPrinter(os.Stderr).Line("%s is no user any more; leases that are held with it end at their stop times", name)
	return nil
}

func (o *userFlags) passwd(name string) error {
	if o.password == "" {
		return report.Usage("there is no --password-file", "see: stint serve user passwd --help")
	}
	password, err := passwordFrom(o.password)
	if err != nil {
		return err
	}
	if err := o.ask(func(ctx context.Context, s *etcdlease.Servers) error {
		err := etcdnode.SetPassword(ctx, s.Client, name, password)
		if err := o.noUser(s, name, "the password could not be changed", err); err != nil {
			return err
		}
		return o.logsIn(ctx, name)
	}); err != nil {
		return err
	}
	report.NewPrinter(os.Stderr).Line("%s has another password", name)
	return nil
}

// noUser tells of a user that is not there, or of another reason.
func (o *userFlags) noUser(s *etcdlease.Servers, name, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, etcdnode.ErrNoUser):
		return o.refused(s, what, err)
	}
	return &report.Problem{Code: report.ExitConfig, What: "there is no user " + name, Data: "nothing was changed",
		Do: "see who there is: stint serve user ls"}
}

// logsIn looks whether a password was really taken: etcd drops that of a user
// who was made without one, and says nothing.
func (o *userFlags) logsIn(ctx context.Context, name string) error {
	file, err := filepath.Abs(o.password)
	if err != nil {
		return err
	}
	s, err := etcdlease.Dial(asUser(o.url, name, file))
	if err != nil {
		return err
	}
	defer s.Close()
	// For this answer etcd has no error of its own.
	if _, err = s.Client.MemberList(ctx, clientv3.WithSerializable()); err != nil && strings.Contains(err.Error(), "no password user") {
		return &report.Problem{Code: report.ExitConfig, What: "the user " + name + " has no password: it shows a certificate", Data: "nothing was changed",
			Do: "to give it a password, take it away first: stint serve user rm " + name}
	}
	return nil // of all else the change itself has told
}

// asUser is the URL for another user; for nobody, if there is no name.
func asUser(raw, name, passwordFile string) string {
	u, err := authority.ParseURL(raw)
	if err != nil {
		return raw
	}
	q := u.Query()
	for _, p := range []string{"user-file", "user-env", "password-file", "password-env"} {
		q.Del(p)
	}
	u.User = nil
	if name != "" {
		u.User = url.User(name)
		q.Set("password-file", passwordFile)
	}
	u.RawQuery = q.Encode()
	return u.String()
}
