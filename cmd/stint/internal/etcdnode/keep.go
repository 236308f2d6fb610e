package etcdnode

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	keepEvery = time.Second
	markEvery = 5 * time.Second
	certEvery = time.Hour
	// Locks come and go, and each time the store keeps what was. Beyond so many
	// old revisions, the oldest are forgotten; a quarter is kept for those who
	// watch.
	mostOld = 200_000
	// lowRoom on the disk is told.
	lowRoom = 1 << 30
)

// keeper is the housekeeping's memory, of one goroutine.
type keeper struct {
	*Node
	leader types.ID
	before mark // reached at the last look
	marked mark // written
	told   map[string]time.Time
	next   map[string]time.Time
}

// keep looks after the node until ctx ends.
func (n *Node) keep(ctx context.Context) {
	k := keeper{Node: n, told: map[string]time.Time{}, next: map[string]time.Time{}}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		k.leading()
		if k.due("mark", markEvery) {
			k.noteMark()
		}
		if k.due("certificates", certEvery) {
			k.certificates()
		}
		k.room(ctx)
		k.forget(ctx)
		select {
		case <-ctx.Done():
			return
		case err := <-n.etcd.Err():
			if err != nil && ctx.Err() == nil {
				n.failed <- n.s.ended(err)
				return
			}
		case <-n.server().LeaderChangedNotify():
		case <-tick.C:
		}
	}
}

func (k *keeper) due(what string, every time.Duration) bool {
	now := time.Now()
	if now.Before(k.next[what]) {
		return false
	}
	k.next[what] = now.Add(every)
	return true
}

// tell says something that lasts, but not each second.
func (k *keeper) tell(what string, args ...any) {
	if now := time.Now(); now.Sub(k.told[what]) >= 10*time.Minute {
		k.told[what] = now
		k.s.Log.Warn(what, args...)
	}
}

func (k *keeper) leading() {
	leader := k.server().Leader()
	if leader == k.leader {
		return
	}
	k.leader = leader
	name := "none"
	if m := k.server().Cluster().Member(leader); m != nil {
		name = m.Name
	}
	if len(k.s.peers()) > 1 {
		k.s.Log.Info("the leader is", "node", name, "term", k.server().Term())
	}
}

func (k *keeper) certificates() {
	for _, t := range []TLS{k.s.Client, k.s.Peer} {
		if what := t.ageing(time.Now()); what != "" {
			k.s.Log.Warn(what)
		}
	}
}

// forget compacts what is old. The leader does it for all.
func (k *keeper) forget(ctx context.Context) {
	kv := k.server().KV()
	if rev := kv.Rev(); k.Leads() && rev-kv.FirstRev() > k.s.old {
		ctx, cancel := context.WithTimeout(ctx, k.server().Cfg.ReqTimeout())
		defer cancel()
		if _, err := k.client.Compact(k.AsRoot(ctx), rev-k.s.old/4); err != nil && ctx.Err() == nil {
			k.tell("old revisions could not be dropped", "cause", err)
		}
	}
}

// room tells of a disk or a quota that runs out, and gives back what a full
// quota can: etcd refuses every grant until somebody says that there is room
// again.
func (k *keeper) room(ctx context.Context) {
	if free, err := freeSpace(k.s.Data); err == nil && free < lowRoom {
		k.tell("little room is left on the disk; without any, the node stops", "folder", k.s.Data, "MiB", free>>20)
	}
	if _, err := os.Stat(dbFile(k.s.Data)); errors.Is(err, fs.ErrNotExist) {
		k.tell("the data folder was removed: nothing outlives this node; take a stint snapshot before it is stopped", "folder", k.s.Data)
	}
	for _, a := range k.server().Alarms() {
		switch {
		case a.Alarm == pb.AlarmType_CORRUPT:
			k.tell("a node's data differs from the others': stop that node and replace its data", "node", types.ID(a.MemberID).String())
		case a.Alarm == pb.AlarmType_NOSPACE && types.ID(a.MemberID) == k.server().MemberID():
			k.tell("the quota is used up: no lease is granted until there is room again (--quota, and what else is in this etcd?)",
				"quota MiB", k.s.Quota>>20)
			if k.due("make room", 10*time.Second) {
				k.makeRoom(ctx)
			}
		}
	}
}

func (k *keeper) makeRoom(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if k.Leads() {
		_, _ = k.client.Compact(k.AsRoot(ctx), k.server().KV().Rev(), clientv3.WithCompactPhysical()) // compacted already, perhaps
	}
	if err := k.server().Defragment(); err != nil {
		k.tell("the database could not be made smaller", "cause", err)
		return
	}
	if size := k.server().Backend().Size(); size > k.s.Quota*8/10 {
		return
	}
	_, err := k.server().Alarm(k.AsRoot(ctx), &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE,
		MemberID: uint64(k.server().MemberID()), Alarm: pb.AlarmType_NOSPACE})
	if err == nil {
		delete(k.told, "the quota is used up: no lease is granted until there is room again (--quota, and what else is in this etcd?)")
		k.s.Log.Info("there is room again", "database MiB", k.server().Backend().Size()>>20)
	}
}

// reached is how far this node has got.
func (n *Node) reached() mark {
	// The revision first: the log is then at least so far.
	m := mark{Cluster: n.Cluster(), Revision: n.Revision()}
	m.Index = n.server().AppliedIndex()
	return m
}

// writeMark notes beside the folder how far this node has got.
func (n *Node) writeMark(m mark) {
	if err := writeMark(n.s.Data, m); err != nil {
		n.s.Log.Warn("the mark beside the data folder could not be written: a folder that is put back from a backup may not be noticed", "cause", err)
	}
}

// noteMark writes what was reached a while ago. What a node has applied just now
// need not be in its own log yet, only in those of most others; after a power
// cut it would be taken for a folder that was put back.
func (k *keeper) noteMark() {
	if k.before.Cluster != "" && k.before != k.marked {
		k.writeMark(k.before)
		k.marked = k.before
	}
	k.before = k.reached()
}

// noteOrigin writes into the data, once, whose it is: a snapshot carries it
// along to where it is restored.
func (n *Node) noteOrigin(ctx context.Context) error {
	text, err := json.Marshal(origin{Cluster: n.Cluster(), Index: n.server().AppliedIndex()})
	if err != nil {
		return err
	}
	missing := clientv3.Compare(clientv3.CreateRevision(originKey), "=", 0)
	for {
		_, err = n.client.Txn(n.AsRoot(ctx)).If(missing).Then(clientv3.OpPut(originKey, string(text))).Commit()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
