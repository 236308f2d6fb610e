package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
	"github.com/stint-dev/stint/cmd/stint/internal/notify"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
)

const serveLong = `Runs a node of stint's own distributed authority, an embedded etcd, until TERM or
INT. Leases are taken from it with --authority etcd://HOST:PORT (etcds:// with
TLS), by stint and by everything else that speaks to etcd through it.

One node by default, on this host only. Three (five) nodes go on when one (two)
of them are gone: give all of them the same --peers, and each its --name.

Beyond loopback, clients need TLS (--cert, --key) and users, and nodes need TLS
among each other (--peer-cert, --peer-key, --peer-ca). Users are set up by
--root-password-file at the first start, or by "stint serve user add". A
certificate that is replaced is used from the next connection on.

The shortest lease that is kept is one and a half times --election, rounded up to
a second; it is told at the start. A lower --election makes for shorter leases,
and for a new leader sooner, but on a busy host or network it costs the leader
its place.

Data that would hand out a token twice is refused where that can be told: a
folder that was put back from a backup, or a snapshot that was restored by
anything else than "stint restore". How far the node got is kept for that in
FOLDER-mark, beside the data folder: do not put it back with it.`

const serveExample = `  stint serve                                   one node, for this host
  stint run nightly --authority etcd://127.0.0.1:2379 -- ./nightly.sh

  # one of three, each on a host of its own
  stint serve --name a --peers a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380 \
      --listen 10.0.0.1:2379 --cert a.pem --key a.key --root-password-file root.pw \
      --peer-cert a.pem --peer-key a.key --peer-ca nodes.pem`

// serveFlags are those of stint serve.
type serveFlags struct {
	node           etcdnode.Settings
	peers, log     string
	rootPassword   string
	quota          settings.Bytes
	quiet, verbose bool
	untilStdinEnds bool // the demo's nodes are not to outlive it
}

// passwordCost is less in tests: with the race detector a hash at etcd's own cost
// takes seconds, and a login as long.
var passwordCost uint

func serveCommand() *cobra.Command {
	var o serveFlags
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Run a node of the distributed authority",
		Long:    serveLong,
		Example: serveExample,
		Args:    noSuchCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return o.tell(o.serve(c.Context())) },
	}
	f := c.Flags()
	dataFlag(f, &o.node.Data)
	peersFlags(f, &o.node.Name, &o.peers)
	f.StringVar(&o.node.Listen, "listen", etcdnode.DefaultListen, "HOST:PORT for clients")
	f.StringVar(&o.node.Advertise, "advertise", "", "HOST:PORT by which clients reach this node (default --listen)")
	f.StringVar(&o.node.ListenPeer, "listen-peer", "", "HOST:PORT for the other nodes (default this node's in --peers)")
	f.StringVar(&o.node.Client.Cert, "cert", "", "certificate that is shown to clients, PEM")
	f.StringVar(&o.node.Client.Key, "key", "", "its key, PEM")
	f.StringVar(&o.node.Client.CA, "client-ca", "", "clients have to show a certificate of this CA, PEM; its common name is a user")
	f.StringVar(&o.node.Peer.Cert, "peer-cert", "", "certificate that is shown to the other nodes, PEM")
	f.StringVar(&o.node.Peer.Key, "peer-key", "", "its key, PEM")
	f.StringVar(&o.node.Peer.CA, "peer-ca", "", "the nodes' certificates are of this CA, PEM")
	f.StringVar(&o.rootPassword, "root-password-file", "", "set up users, if there are none yet, with the user root and this password")
	f.Var(settings.Duration{D: &o.node.Heartbeat}, "heartbeat", "time between the leader's signs of life (default 100ms)")
	f.Var(settings.Duration{D: &o.node.Election}, "election", "time without one after which another leader is elected (default 1s)")
	f.Var(&o.quota, "quota", "how large the database may become (default 2GiB)")
	f.StringVar(&o.log, "log", "text", "how to log to standard error: text or json")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "log warnings and errors only")
	f.BoolVar(&o.verbose, "verbose", false, "log what etcd has to say, too")
	f.BoolVar(&o.untilStdinEnds, "until-stdin-ends", false, "stop when standard input ends")
	_ = f.MarkHidden("until-stdin-ends")
	c.AddCommand(serveStatusCommand(), serveUserCommand())
	return c
}

func dataFlag(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "data", "", "the node's own folder (default the folder etcd beside the default file)")
}

func peersFlags(f *pflag.FlagSet, name, peers *string) {
	f.StringVar(name, "name", "", "this node's name in --peers")
	f.StringVar(peers, "peers", "", "all nodes, as in a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380 (default one node)")
}

// complete turns the flags into settings.
func (o *serveFlags) complete() error {
	var err error
	if o.node.Data, err = dataFolder(o.node.Data); err != nil {
		return err
	}
	if o.node.Peers, err = peersOf(o.peers); err != nil {
		return err
	}
	if o.rootPassword != "" {
		if o.node.RootPassword, err = passwordFrom(o.rootPassword); err != nil {
			return err
		}
	}
	if o.node.Log, err = o.logger(os.Stderr); err != nil {
		return err
	}
	o.node.Quota, o.node.Verbose, o.node.PasswordCost = int64(o.quota), o.verbose, passwordCost
	return nil
}

// dataFolder is where the data lies: by the same rule as the default file.
func dataFolder(dir string) (string, error) {
	if dir == "" {
		file, err := settings.DefaultFile()
		if err != nil {
			return "", &report.Problem{Code: report.ExitConfig, What: "there is no default data folder", Err: err, Data: "nothing was done", Do: "give --data FOLDER"}
		}
		return filepath.Join(filepath.Dir(file), "etcd"), nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &report.Problem{Code: report.ExitConfig, What: "--data", Err: err, Data: "nothing was done"}
	}
	return abs, nil
}

func peersOf(text string) ([]etcdnode.Peer, error) {
	if text == "" {
		return nil, nil
	}
	peers, err := etcdnode.ParsePeers(text)
	if err != nil {
		return nil, report.Usage("--peers: "+err.Error(), "write --peers a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380")
	}
	return peers, nil
}

// passwordFrom reads a password: the first line of a file.
func passwordFrom(file string) (string, error) {
	text, err := os.ReadFile(file)
	bad := &report.Problem{Code: report.ExitConfig, What: "the password cannot be read", Err: err, Data: "nothing was done",
		Do: "name a file of one line, the password, that this user may read"}
	if err != nil {
		return "", bad
	}
	line, rest, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if line == "" || strings.TrimSpace(rest) != "" {
		bad.Err = fmt.Errorf("%s has to have one line, which is not empty", file)
		return "", bad
	}
	return line, nil
}

// logger writes structured lines. The journal puts a time to each line itself.
func (o *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if o.quiet {
		opts.Level = slog.LevelWarn
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	switch o.log {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, report.Usage("--log "+o.log+": it is text or json", "see: stint serve --help")
}

// stopPatience bounds the end of a node: etcd's own steps of it take seconds
// when the other nodes do not answer.
const stopPatience = 30 * time.Second

// serve runs the node until a signal or its own end.
func (o *serveFlags) serve(ctx context.Context) error {
	if err := o.complete(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if o.untilStdinEnds {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	log := o.node.Log
	log.Info("starting", "data", o.node.Data)
	n, err := etcdnode.Start(ctx, o.node)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		log.Info("stopped before the node served")
		return nil
	}
	if err != nil {
		return problem(err)
	}
	log.Info("serving", "authority", o.authority(), "node", n.Name(), "cluster", n.Cluster(), "revision", n.Revision(),
		"shortest_lease", o.node.MinLease().String(), "users", n.Users())
	notify.Send("READY=1\nSTATUS=serving " + o.authority())
	select {
	case err := <-n.Failed():
		return problem(err)
	case <-ctx.Done():
	}
	stop() // a second signal ends the process at once
	notify.Send("STOPPING=1")
	log.Info("stopping", "leader", n.Leads())
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := n.Stop(ending); err != nil {
		return &report.Problem{Code: report.ExitService, What: "the node could not be stopped in order", Err: err,
			Data: "its data is as after a power cut: nothing that was granted is lost"}
	}
	log.Info("stopped")
	return nil
}

// tell logs the node's end as the rest is logged. As text, it is stint's own
// lines, as with every command.
func (o *serveFlags) tell(err error) error {
	p, ok := errors.AsType[*report.Problem](err)
	if !ok || o.node.Log == nil || o.log != "json" {
		return err
	}
	o.node.Log.Error(p.Error(), "data", p.Data, "do", p.Do)
	return exitCode(p.Code)
}

// authority is the URL by which clients take leases from this node.
func (o *serveFlags) authority() string {
	scheme, host := "etcd", o.node.Advertise
	if o.node.Client.Cert != "" {
		scheme = "etcds"
	}
	if host == "" {
		host = o.node.Listen
	}
	return scheme + "://" + host
}

// problem is a node's refusal as stint tells it.
func problem(err error) error {
	p := &report.Problem{Code: report.ExitService, Err: err}
	r, ok := errors.AsType[*etcdnode.Refusal](err)
	if !ok {
		return p
	}
	p.Data, p.Do = r.Data, r.Do
	if errors.Is(err, etcdnode.ErrSettings) {
		p.Code = report.ExitConfig
		if p.Do == "" {
			p.Do = "see: stint serve --help"
		}
	}
	return p
}
