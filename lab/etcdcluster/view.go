package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// look bounds one question to a member, which may be frozen.
const look = time.Second

// Size is the number of members, whether they run or not.
func (c *Cluster) Size() int { return len(c.members) }

// Dir is the folder of member i's data.
func (c *Cluster) Dir(i int) string { return c.settings(i).Dir }

// Log is what member i complained of so far.
func (c *Cluster) Log(i int) string {
	text, err := os.ReadFile(c.logFile(i))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// PID is the process of member i; 0: it is down.
func (c *Cluster) PID(i int) int { return c.pids()[i] }

// Status is what member i says of itself. It fails when the member is down or
// frozen; no gate is in its way.
func (c *Cluster) Status(ctx context.Context, i int) (Status, error) {
	var s Status
	return s, c.ask(ctx, i, "/status", &s)
}

// Metrics are member i's metrics in Prometheus's text format.
func (c *Cluster) Metrics(ctx context.Context, i int) (string, error) {
	var text string
	return text, c.ask(ctx, i, "/metrics", &text)
}

// Counts are the messages from clients that the running members have received
// since they started, by method: "KV/Txn", "Lease/LeaseKeepAlive", "Watch/Watch".
func (c *Cluster) Counts(ctx context.Context) (map[string]int64, error) {
	sum := map[string]int64{}
	for i := range c.members {
		if c.process(i) == nil {
			continue
		}
		var one map[string]int64
		if err := c.ask(ctx, i, "/counts", &one); err != nil {
			return nil, err
		}
		for method, n := range one {
			sum[method] += n
		}
	}
	return sum, nil
}

func (c *Cluster) ask(ctx context.Context, i int, path string, answer any) error {
	p := c.process(i)
	if p == nil {
		return fmt.Errorf("etcdcluster: %s is down", c.members[i].name)
	}
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	return ask(ctx, p.report.Control, path, answer)
}

// Leader waits for a leader that most of the members follow, and returns its
// number. Members that are down or frozen have no say; those that are cut off
// may still believe in an old one, of a lower term.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	leader := -1
	err := poll(ctx, pollEvery, func() (err error) {
		leader, err = c.leaderNow(ctx)
		return err
	})
	return leader, err
}

func (c *Cluster) leaderNow(ctx context.Context) (int, error) {
	all := make([]Status, len(c.members))
	// A member that does not answer votes for nobody.
	_ = c.each(func(i int) (err error) { all[i], err = c.Status(ctx, i); return err })
	votes := map[[2]uint64]int{}
	for _, s := range all {
		votes[[2]uint64{s.Leader, s.Term}]++
	}
	for i, s := range all {
		if s.ID != 0 && s.Leader == s.ID && 2*votes[[2]uint64{s.ID, s.Term}] > len(all) {
			return i, nil
		}
	}
	return -1, fmt.Errorf("etcdcluster: no leader: %+v", all)
}

// AwaitReady waits until every member runs, knows the leader and serves.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	return poll(ctx, pollEvery, func() error {
		return c.each(func(i int) error {
			s, err := c.Status(ctx, i)
			return errors.Join(err, notReady(i, s))
		})
	})
}

// enableUsers makes root with its password, and lets in only users from then on.
func (c *Cluster) enableUsers(ctx context.Context) error {
	o := c.o
	o.RootPassword = ""
	client, err := clientv3.New(c.config(o, c.Endpoints()))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.UserAdd(ctx, "root", c.o.RootPassword)
	if err == nil {
		_, err = client.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = client.AuthEnable(ctx)
	}
	return err
}

// Name is what the cluster calls member i.
func (c *Cluster) Name(i int) string { return c.members[i].name }

// PeerURL is the address that member i advertises to its peers.
func (c *Cluster) PeerURL(i int) string { return c.settings(i).PeerURL }
