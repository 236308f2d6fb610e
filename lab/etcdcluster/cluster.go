package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Cluster is a number of etcd members under the control of this process. Its
// methods are safe for concurrent use; those that start, end or stop one member
// are taken one after the other.
type Cluster struct {
	o       Options
	dir     string
	ownDir  bool
	members []*node
	doors   []*Door
	mu      sync.Mutex // of doors and of each node's process
	changes sync.Mutex // one change of the processes at a time
	closed  bool
}

// node is one member's place in the cluster: it outlives its process.
type node struct {
	name   string
	peers  *front
	from   []*Link // from[i]: what member i has dialled to this one; the last: see owner
	client *front  // what the member advertises to clients
	direct *Link
	pid    int      // of its process, from before it does anything; 0: down
	proc   *process // nil: down, or not yet up
}

// Start starts a cluster of the given number of members and waits until it has a
// leader and serves. ctx bounds the start alone; Close ends the cluster.
func Start(ctx context.Context, nodes int, o Options) (*Cluster, error) {
	c := &Cluster{o: o.withDefaults(), dir: o.Dir}
	if err := c.start(ctx, nodes); err != nil {
		return nil, errors.Join(err, c.logs(), c.Close())
	}
	return c, nil
}

// TB is the part of testing.TB that Run needs.
type TB interface {
	Helper()
	Context() context.Context
	Fatal(...any)
	Error(...any)
	Cleanup(func())
}

// Run is Start for a test: the cluster is closed when the test has ended.
func Run(t TB, nodes int, o Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *Cluster) start(ctx context.Context, nodes int) error {
	if nodes < 1 {
		return fmt.Errorf("etcdcluster: %d members: at least one is needed", nodes)
	}
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "stint-etcd-")
		if err != nil {
			return err
		}
		c.dir, c.ownDir = dir, true
	}
	for i := range nodes {
		if err := c.addNode(i, nodes); err != nil {
			return err
		}
	}
	if err := c.each(func(i int) error { return c.spawn(ctx, i) }); err != nil {
		return err
	}
	if err := c.AwaitReady(ctx); err != nil {
		return err
	}
	if c.o.RootPassword != "" {
		return c.enableUsers(ctx)
	}
	return nil
}

// addNode makes member i's gates.
func (c *Cluster) addNode(i, nodes int) (err error) {
	n := &node{name: fmt.Sprintf("m%d", i), direct: newLink()}
	for range nodes + 1 {
		n.from = append(n.from, newLink())
	}
	c.members = append(c.members, n)
	n.peers, err = newFront(n.from, func(conn net.Conn) *Link {
		if who := owner(conn, c.pids()); who >= 0 {
			return n.from[who]
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.client, err = newFront([]*Link{n.direct}, func(net.Conn) *Link { return n.direct })
	return err
}

// each runs f for all members at once: none is ready before most of them are.
func (c *Cluster) each(f func(i int) error) error {
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i := range c.members {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) pids() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := make([]int, len(c.members))
	for i, n := range c.members {
		pids[i] = n.pid
	}
	return pids
}

// settings are what member i's process is told.
func (c *Cluster) settings(i int) settings {
	var peers []string
	for _, n := range c.members {
		peers = append(peers, n.name+"="+c.o.PeerTLS.scheme()+"://"+n.peers.address())
	}
	n := c.members[i]
	return settings{
		Options: c.o, Name: n.name, Dir: filepath.Join(c.dir, n.name), Log: c.logFile(i),
		PeerURL:   c.o.PeerTLS.scheme() + "://" + n.peers.address(),
		ClientURL: c.o.TLS.scheme() + "://" + n.client.address(),
		Peers:     strings.Join(peers, ","), Token: "stint-lab",
		PeerTLS: c.o.PeerTLS, Client: c.o.TLS,
	}
}

func (c *Cluster) logFile(i int) string { return filepath.Join(c.dir, c.members[i].name+".log") }

// logs is what the members complained of, for the error of a failed start.
func (c *Cluster) logs() error {
	var errs []error
	for i := range c.members {
		text, err := os.ReadFile(c.logFile(i))
		if err == nil && len(text) > 0 {
			errs = append(errs, fmt.Errorf("log of %s: %s", c.members[i].name, text))
		}
	}
	return errors.Join(errs...)
}

// Close kills the members, and removes their data unless Options.Dir was set. It
// waits until everything is gone. Closing again does nothing.
func (c *Cluster) Close() error {
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var errs []error
	for i := range c.members {
		errs = append(errs, c.end(i, (*process).kill))
	}
	for _, n := range c.members {
		for _, f := range []*front{n.peers, n.client} {
			if f != nil {
				f.close()
			}
		}
	}
	for _, d := range c.doors {
		d.close()
	}
	if c.ownDir {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
