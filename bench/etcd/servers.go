//go:build !race

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// childEnv tells a process of this program to be a server or a holder.
const childEnv = "STINT_BENCH_ETCD_CHILD"

// childMain runs the child that the environment names, and ends the process;
// elsewhere it returns at once.
func childMain() {
	var run func(order []byte, in io.Reader, out io.Writer) error
	switch os.Getenv(childEnv) {
	case "":
		return
	case "member":
		run = memberMain
	case "holder":
		run = holderMain
	}
	lines := bufio.NewReader(os.Stdin)
	order, err := lines.ReadBytes('\n')
	if err == nil {
		err = run(order, lines, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a process of this program that ends when its input ends.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(kind string, order any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+kind)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(order)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return c, err
}

// hear reads the child's next line.
func (c *child) hear(v any) error {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("a process of the bench ended early: %w", err)
	}
	return json.Unmarshal(line, v)
}

func (c *child) close() {
	c.in.Close()
	_ = c.cmd.Wait()
}

// memberOrder is what a member is told.
type memberOrder struct{ Name, Dir, Peer, Client, Cluster string }

// memberMain is etcd as it comes, with its usual heartbeat and election time-out.
func memberMain(order []byte, in io.Reader, out io.Writer) error {
	var o memberOrder
	if err := json.Unmarshal(order, &o); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster = o.Name, o.Dir, o.Cluster
	cfg.LogLevel, cfg.LogOutputs = "error", []string{filepath.Join(o.Dir, "log")}
	cfg.EnableGRPCGateway = false
	peer, client := []url.URL{{Scheme: "http", Host: o.Peer}}, []url.URL{{Scheme: "http", Host: o.Client}}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	if _, err := fmt.Fprintln(out, `"ready"`); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// servers are etcd members without anything in between.
type servers struct {
	dir       string
	endpoints []string
	members   []*child
}

func startServers(ctx context.Context, nodes int) (*servers, error) {
	dir, err := os.MkdirTemp("", "stint-bench-etcd-")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir}
	addresses, err := freeAddresses(2 * nodes)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var cluster []string
	for i := range nodes {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, addresses[i]))
	}
	for i := range nodes {
		c, err := startChild("member", memberOrder{
			Name: fmt.Sprint("m", i), Dir: filepath.Join(dir, fmt.Sprint("m", i)),
			Peer: addresses[i], Client: addresses[nodes+i], Cluster: strings.Join(cluster, ","),
		})
		if err != nil {
			s.close()
			return nil, err
		}
		s.members, s.endpoints = append(s.members, c), append(s.endpoints, addresses[nodes+i])
	}
	for _, m := range s.members {
		var ready string
		if err := m.hear(&ready); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, s.await(ctx)
}

func (s *servers) close() {
	for _, m := range s.members {
		m.in.Close()
	}
	for _, m := range s.members {
		m.close()
	}
	_ = os.RemoveAll(s.dir)
}

// freeAddresses finds ports that nobody listens on just now.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

func client(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// leader is the endpoint of the leader: the best that the rival can be given,
// for requests to a follower cost it one more hop.
func (s *servers) leader(ctx context.Context) (string, error) {
	c, err := client(s.endpoints...)
	if err != nil {
		return "", err
	}
	defer c.Close()
	for _, e := range s.endpoints {
		r, err := c.Status(ctx, e)
		if err != nil {
			return "", err
		}
		if r.Leader == r.Header.MemberId {
			return e, nil
		}
	}
	return "", errors.New("no member leads")
}

// await waits for a leader.
func (s *servers) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := s.leader(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			s.close()
			return err
		}
	}
}
