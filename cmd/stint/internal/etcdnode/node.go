package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// Node is a node that runs. Its methods are safe for concurrent use.
type Node struct {
	s       Settings
	log     *etcdLog
	gate    *gate
	etcd    *embed.Etcd
	client  *clientv3.Client
	failed  chan error  // at most one, from whichever goroutine gives up
	gaveUp  atomic.Bool // etcd made an end: its parts cannot be stopped in order any more
	release []func()    // the folder and what else was taken, in the order of taking

	keeping sync.WaitGroup
	unkeep  context.CancelFunc
}

// Start checks the settings and the data, and runs a node. It returns when the
// node serves: a single one soon, one of several when more than half of them are
// there. What is wrong is told as a *Refusal, before anything is changed where
// that is possible. When ctx ends first, the node is stopped again.
//
// After an error that etcd made an end for, parts of it may be left in this
// process: it should end.
func Start(ctx context.Context, s Settings) (*Node, error) {
	if err := s.Check(); err != nil {
		return nil, s.refuseSettings(err)
	}
	s = s.withDefaults()
	n := &Node{s: s, gate: newGate(), failed: make(chan error, 1)}
	n.log = &etcdLog{dead: func(err error) {
		n.gaveUp.Store(true)
		n.failed <- s.ended(err)
	}}
	if s.Verbose {
		n.log.to = s.Log
	}
	err := n.prepare()
	if err == nil {
		err = n.launch()
	}
	if err == nil {
		err = n.await(ctx)
	}
	if err == nil {
		err = n.settle(ctx)
	}
	if err != nil {
		n.abandon()
		return nil, err
	}
	return n, nil
}

// prepare takes the folder and looks whether a node may run on it.
func (n *Node) prepare() error {
	unlock, err := openFolder(n.s.Data)
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	if err != nil {
		return n.s.unusable(err)
	}
	n.release = append(n.release, unlock)
	data, err := inspect(n.s.Data)
	if err != nil {
		return err
	}
	m, err := readMark(n.s.Data)
	if err != nil {
		return damaged(n.s.Data, "the mark beside it", err)
	}
	return cmpFirst(n.s.refuseRepeats(data, m), n.s.refuseMembers(data), n.s.refuseUsers(data), n.s.refuseHost())
}

// cmpFirst is the first error.
func cmpFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// launch starts etcd. It may give up in a goroutine of its own.
func (n *Node) launch() error {
	pages, remove, err := pagesSocket(n.s.Data)
	if err != nil {
		return n.s.ended(err)
	}
	n.release = append(n.release, remove)
	type result struct {
		e   *embed.Etcd
		err error
	}
	started := make(chan result, 1)
	cfg := n.s.config(n.log, pages, n.gate.options()...)
	go func() {
		var r result
		err := caught(func() error { r.e, r.err = embed.StartEtcd(cfg); return nil })
		if err != nil {
			r.err = err
		}
		started <- r
	}()
	select {
	case r := <-started:
		if r.err != nil {
			return n.s.ended(r.err)
		}
		n.etcd = r.e
	case err := <-n.failed:
		return err
	}
	open := n.open
	n.gate.open.Store(&open)
	n.client = v3client.New(n.etcd.Server)
	return nil
}

// open reports whether clients from outside may be let in.
func (n *Node) open() bool {
	clients, _ := n.s.beyond()
	return !clients || n.Users()
}

// firstPatience is how long the others may take before a node says that it
// waits for them; single is how long a node without others may take at all.
const (
	firstPatience = 10 * time.Second
	single        = 2 * time.Minute
)

// await waits until the node serves.
func (n *Node) await(ctx context.Context) error {
	tick := time.NewTicker(firstPatience)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-n.etcd.Server.ReadyNotify():
			return nil
		case err := <-n.failed:
			return err
		case err := <-n.etcd.Err():
			return n.s.ended(err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if len(n.s.peers()) > 1 {
			n.s.Log.Warn("waiting for the other nodes", "nodes", n.s.cluster(), "needed", len(n.s.peers())/2+1, "etcd", n.log.lastComplaint())
		} else if time.Since(began) > single {
			return n.s.ended(fmt.Errorf("it did not begin to serve within %v (%s)", single, n.log.lastComplaint()))
		}
	}
}

// settle does what a node does once, before it is called started.
func (n *Node) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*n.server().Cfg.ReqTimeout())
	defer cancel()
	if err := n.setUpUsers(ctx); err != nil {
		return &Refusal{What: "the users could not be set up", Err: err, Data: "the node was stopped again; nobody was let in", Do: "start it again"}
	}
	if err := n.noteOrigin(ctx); err != nil {
		return &Refusal{What: "the node does not answer", Err: err, Data: "it was stopped again", Do: "start it again; see what etcd says with --verbose"}
	}
	keep, unkeep := context.WithCancel(context.Background())
	n.unkeep = unkeep
	n.keeping.Go(func() { n.keep(keep) })
	return nil
}

func (n *Node) server() *etcdserver.EtcdServer { return n.etcd.Server }

// Client talks to the node without a connection. Where users are set up, its
// requests need AsRoot. It lives as long as the node.
func (n *Node) Client() *clientv3.Client { return n.client }

// AsRoot lets the requests of Client pass as those of root.
func (n *Node) AsRoot(ctx context.Context) context.Context {
	return n.server().AuthStore().WithRoot(ctx)
}

// Failed delivers why the node gave up by itself. After that it answers nobody,
// and the process should end; Stop may not return.
func (n *Node) Failed() <-chan error { return n.failed }

// Leads reports whether this node is the leader.
func (n *Node) Leads() bool { return n.server().Leader() == n.server().MemberID() }

// Cluster is the name of the cluster that the data belongs to.
func (n *Node) Cluster() string { return clusterName(uint64(n.server().Cluster().ID())) }

// Name is this node's among its peers.
func (n *Node) Name() string { return n.s.Name }

// Users reports whether users are set up.
func (n *Node) Users() bool { return n.server().AuthStore().IsAuthEnabled() }

// Revision is the counter that tokens are taken from, as far as this node knows.
func (n *Node) Revision() int64 { return n.server().KV().Rev() }

// Stop hands the lead to another node, if there is one, ends the streams of
// clients, and stops the node. It returns when all is stopped, or with ctx.
func (n *Node) Stop(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.unkeep()
		n.keeping.Wait()
		handed := n.handOver()
		m := n.reached()
		if !handed { // or etcd would try once more, for seconds
			n.server().HardStop()
		}
		n.close()
		n.writeMark(m) // now all of it is in the log
		n.giveBack()
	}()
	select {
	case <-done:
		return nil
	case err := <-n.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Node) close() {
	n.gate.stop()
	n.client.Close()
	n.etcd.Close()
	for range n.etcd.Err() { // what ended because of the stop
	}
}

// abandon stops what was started, if it can be stopped.
func (n *Node) abandon() {
	switch {
	case n.gaveUp.Load(): // and the folder stays taken as long as this process
	case n.etcd != nil:
		select {
		case <-n.server().ReadyNotify():
		default: // etcd's own end waits for those who wait until it is ready
			n.server().HardStop()
		}
		n.close()
		n.giveBack()
	default:
		n.giveBack()
	}
}

func (n *Node) giveBack() {
	for _, f := range slices.Backward(n.release) {
		f()
	}
	n.release = nil
}
