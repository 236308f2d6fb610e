package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const restoreLong = `Makes a data folder for "stint serve" from a snapshot, or from another data folder
on which no node runs any more.

Tokens that were handed out since the snapshot must not be handed out again: a
fence would take a new holder for an old one. So the counter that tokens are
taken from goes on --bump higher, 1000000 unless another number is given. Each
lease that is taken or given back moves it by about one: if there may have been
more since the snapshot, give a higher number. A folder that a node has run on is
known to have got how far (FOLDER-mark), and too low a number is refused.

All leases and locks are dropped: whoever holds one notices at its next renewal,
and stops. Nobody is let in before its stop time only if the nodes were down, or
the holders cut off, for as long as the longest lease: wait for that before you
start the restored nodes. A fence refuses a holder of before in any case, once
its successor has raised it.

Several nodes are each restored from the same file with the same --bump and
--peers, and all old folders are put away. Users stay as in the snapshot.`

type restoreFlags struct {
	restore           etcdnode.Restore
	data, name, peers string
	asJSON            bool
}

func restoreCommand() *cobra.Command {
	var o restoreFlags
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data folder for stint serve from a snapshot",
		Long:  restoreLong,
		Example: `  stint restore /backup/stint-2026-11-28.snapshot --bump 1000000
  stint restore /var/lib/stint/etcd-old --data /var/lib/stint/etcd`,
		Args: exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	f := c.Flags()
	dataFlag(f, &o.data)
	peersFlags(f, &o.name, &o.peers)
	f.BoolVar(&o.restore.PeerTLS, "peer-tls", false, "the nodes of --peers speak TLS with each other")
	f.Uint64Var(&o.restore.Bump, "bump", etcdnode.DefaultBump, "how far the counter of tokens is raised")
	f.StringArrayVar(&o.restore.Prefixes, "prefix", []string{etcdnode.DefaultPrefix}, "prefix of leases whose locks are dropped; may be given several times")
	f.BoolVar(&o.asJSON, "json", false, "write what was done as JSON")
	return c
}

func (o *restoreFlags) run(file string) error {
	if o.restore.Bump == 0 {
		return report.Usage("--bump 0: without a bump tokens would be handed out twice", "leave it out for the default")
	}
	r := o.restore
	r.Snapshot = file
	var err error
	if r.Node.Data, err = dataFolder(o.data); err != nil {
		return err
	}
	r.Node.Name = o.name
	if r.Node.Peers, err = peersOf(o.peers); err != nil {
		return err
	}
	done, err := r.Run()
	if err != nil {
		return problem(err)
	}
	out := report.NewPrinter(os.Stderr)
	out.Line("restored %s (of %s) to %s, by %s", file, done.Taken.Format(time.DateTime), done.Data, who())
	out.Line("the counter of tokens was raised from %d to %d; %s dropped", done.Before, done.After, dropped(done))
	if o.asJSON {
		return report.JSON(os.Stdout, done)
	}
	return nil
}

func dropped(d etcdnode.Restored) string {
	return fmt.Sprintf("%s and %s were", counted(d.Leases, "lease"), counted(d.Keys, "key"))
}

// counted is a number of things, which may be one.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
