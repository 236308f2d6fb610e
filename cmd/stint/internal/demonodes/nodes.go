// Package demonodes runs three real etcd nodes for the demo, each a process of
// "stint serve" on loopback, and kills the one that leads.
package demonodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-dev/stint/backends/etcdlease"
)

// Shortest is the shortest lease that outlives the death of a leader on a host
// that is busy with all of this: the others elect one within about a second.
const Shortest = 5 * time.Second

// Nodes are three processes.
type Nodes struct {
	all []*node
	ask *etcdlease.Servers
}

type node struct {
	name, client, peer string
	cmd                *exec.Cmd
	stdin              io.Closer
	log                lockedBuffer
	done               chan struct{}
}

// lockedBuffer keeps what a process says.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}

// tries: an address that was free a moment ago may be taken by then.
const tries = 3

// Start runs the nodes of the command exe, with their data below dir, and waits
// until they serve.
func Start(ctx context.Context, exe, dir string) (n *Nodes, err error) {
	for try := range tries {
		n, err = start(ctx, exe, filepath.Join(dir, fmt.Sprintf("nodes-%d", try)))
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return n, err
}

func start(ctx context.Context, exe, dir string) (*Nodes, error) {
	n := &Nodes{}
	addresses, err := free(6)
	if err != nil {
		return nil, err
	}
	var peers []string
	for i, name := range []string{"n1", "n2", "n3"} {
		n.all = append(n.all, &node{name: name, client: addresses[i], peer: addresses[i+3], done: make(chan struct{})})
		peers = append(peers, name+"="+addresses[i+3])
	}
	for _, m := range n.all {
		if err := m.start(exe, "serve", "--until-stdin-ends", "--data", filepath.Join(dir, m.name), "--name", m.name,
			"--peers", strings.Join(peers, ","), "--listen", m.client, "--heartbeat", "50ms", "--election", "500ms"); err != nil {
			n.Kill()
			return nil, err
		}
	}
	if n.ask, err = etcdlease.Dial(n.URL()); err == nil {
		err = n.serve(ctx)
	}
	if err != nil {
		n.Kill()
		return nil, err
	}
	return n, nil
}

// free are addresses on loopback where nobody listens.
func free(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

func (m *node) start(exe string, args ...string) (err error) {
	m.cmd = exec.Command(exe, args...)
	m.cmd.Stderr = &m.log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo alone
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		close(m.done)
		m.cmd = nil
		return err
	}
	go func() {
		defer close(m.done)
		_ = m.cmd.Wait()
	}()
	return nil
}

// serve waits until each of them serves.
func (n *Nodes) serve(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, m := range n.all {
		for !strings.Contains(m.log.String(), "msg=serving") {
			select {
			case <-m.done:
				return fmt.Errorf("the node %s ended: %s", m.name, m.log.String())
			case <-ctx.Done():
				return fmt.Errorf("the node %s does not serve: %w: %s", m.name, context.Cause(ctx), m.log.String())
			case <-tick.C:
			}
		}
	}
	return nil
}

// URL is the authority's.
func (n *Nodes) URL() string {
	var hosts []string
	for _, m := range n.all {
		hosts = append(hosts, m.client)
	}
	return "etcd://" + strings.Join(hosts, ",")
}

// leader asks the living nodes, until one of the living leads.
func (n *Nodes) leader(ctx context.Context) (*node, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, m := range n.all {
			if m.leads(ctx, n.ask) {
				return m, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no node leads: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (m *node) leads(ctx context.Context, ask *etcdlease.Servers) bool {
	select {
	case <-m.done:
		return false
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	st, err := ask.Client.Status(ctx, m.client)
	return err == nil && st.Leader == st.Header.MemberId
}

// KillLeader kills the node that leads, with SIGKILL, and says which it was.
func (n *Nodes) KillLeader(ctx context.Context) (name string, pid int, err error) {
	m, err := n.leader(ctx)
	if err != nil {
		return "", 0, err
	}
	if err := m.cmd.Process.Kill(); err != nil {
		return "", 0, err
	}
	<-m.done
	return m.name, m.cmd.Process.Pid, nil
}

// Leader waits until a node leads, and says which.
func (n *Nodes) Leader(ctx context.Context) (string, error) {
	m, err := n.leader(ctx)
	if err != nil {
		return "", err
	}
	return m.name, nil
}

// Kill ends all of them, and waits until they are gone.
func (n *Nodes) Kill() {
	for _, m := range n.all {
		if m.cmd != nil {
			if err := m.cmd.Process.Kill(); err == nil || errors.Is(err, syscall.ESRCH) {
				m.stdin.Close()
			}
			<-m.done
		}
	}
	if n.ask != nil {
		n.ask.Close()
	}
}
