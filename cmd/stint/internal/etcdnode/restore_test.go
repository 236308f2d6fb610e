package etcdnode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
)

// lock takes a name as the authority on etcd does, in short: a key on a lease,
// whose create revision is the token.
func lock(t *testing.T, c *clientv3.Client, name string) (token int64) {
	t.Helper()
	for ctx := within(t); ; {
		l, err := c.Grant(ctx, 3600)
		if err == nil {
			var r *clientv3.PutResponse
			if r, err = c.Put(ctx, "stint/lock/"+name+"/me", "holder", clientv3.WithLease(l.ID)); err == nil {
				return r.Header.Revision
			}
		}
		// Three nodes may elect another leader, on a busy machine: then the next one is asked.
		if e, ok := errors.AsType[rpctypes.EtcdError](err); !ok || e.Code() != codes.Unavailable || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(within(t), key, value); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	r, err := c.Get(within(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

// history is a snapshot, and what went on after it.
type history struct {
	s    Settings
	file string
	last int64 // the highest token ever
}

func newHistory(t *testing.T) history {
	h := history{s: fast(t, filepath.Join(t.TempDir(), "data")), file: filepath.Join(t.TempDir(), "snapshot")}
	n := start(t, h.s)
	c := n.Client()
	put(t, c, "mine", "kept")
	put(t, c, "stint/floor/a", "7")
	lock(t, c, "a")
	lock(t, c, "b")
	taken, err := Snapshot(within(t), c, h.file)
	if err != nil || taken.Revision != n.Revision() {
		t.Fatalf("%+v, %v; the node is at %d", taken, err, n.Revision())
	}
	for range 20 {
		h.last = lock(t, c, "a")
	}
	stop(t, n)
	return h
}

func TestARestoreKeepsTokensGrowingAndDropsLocks(t *testing.T) {
	h := newHistory(t)
	to := fast(t, filepath.Join(t.TempDir(), "restored"))
	done, err := Restore{Snapshot: h.file, Node: to}.Run()
	if err != nil {
		t.Fatal(err)
	}
	if done.Leases != 2 || done.Keys != 3 || done.After != done.Before+DefaultBump {
		t.Errorf("%+v; want 2 leases and 3 keys dropped: two locks and the origin", done)
	}
	n := start(t, to)
	defer stop(t, n)
	c := n.Client()
	l, err := c.Leases(within(t))
	if err != nil || len(l.Leases) != 0 {
		t.Errorf("leases %v, %v", l, err)
	}
	r, err := c.Get(within(t), "stint/lock/", clientv3.WithPrefix())
	if err != nil || r.Count != 0 {
		t.Errorf("locks %v, %v", r, err)
	}
	if get(t, c, "mine") != "kept" || get(t, c, "stint/floor/a") != "7" {
		t.Error("a key that is no lock is gone")
	}
	if token := lock(t, c, "a"); token <= h.last || token <= done.After {
		t.Errorf("token %d after the restore; before it there was %d", token, h.last)
	}
	// Whoever watched the old history is told that it is closed.
	w := <-c.Watch(within(t), "stint/", clientv3.WithPrefix(), clientv3.WithRev(done.Before))
	if w.CompactRevision == 0 {
		t.Errorf("a watch from before the restore goes on: %+v", w)
	}
}

// plainRestore is what etcd's own tool does without further flags.
func plainRestore(t *testing.T, h history, token string) Settings {
	t.Helper()
	to := fast(t, filepath.Join(t.TempDir(), "restored")).withDefaults()
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{SnapshotPath: h.file, Name: to.Name, OutputDataDir: to.Data,
		PeerURLs: []string{to.peerURL(to.self()).String()}, InitialCluster: to.cluster(), InitialClusterToken: token})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// What the bump is for: etcd's own restore repeats tokens and brings locks back.
func TestARestoreWithoutABumpWouldRepeatTokens(t *testing.T) {
	h := newHistory(t)
	to := plainRestore(t, h, "etcd-cluster")
	// A node that looks at nothing.
	n := &Node{s: to, gate: newGate(), failed: make(chan error, 1)}
	n.log = &etcdLog{dead: func(err error) { n.failed <- err }}
	if err := n.launch(); err != nil {
		t.Fatal(err)
	}
	if err := n.await(within(t)); err != nil {
		t.Fatal(err)
	}
	defer n.giveBack()
	defer n.close()
	if get(t, n.Client(), "stint/lock/b/me") == "" {
		t.Error("the lock of before did not come back: then dropping it is needless")
	}
	if token := lock(t, n.Client(), "a"); token > h.last {
		t.Errorf("token %d did not repeat one up to %d: then the bump is needless", token, h.last)
	}
}

func mustRefuse(t *testing.T, s Settings, kind error, word string) {
	t.Helper()
	n, err := Start(within(t), s)
	if err == nil {
		stop(t, n)
		t.Fatalf("it started; want a refusal with %q", word)
	}
	r, ok := errors.AsType[*Refusal](err)
	if !ok || !errors.Is(err, kind) || !strings.Contains(err.Error(), word) || r.Data == "" || r.Do == "" {
		t.Errorf("%#v: %v; want %v with %q", r, err, kind, word)
	}
}

func TestDataThatWasRestoredWithoutABumpIsRefused(t *testing.T) {
	h := newHistory(t)
	for _, token := range []string{"etcd-cluster", newCluster} { // as another cluster, and as the same one
		to := plainRestore(t, h, token)
		mustRefuse(t, to, ErrRepeats, "counter of tokens was not raised")
		// The way out that the refusal names.
		next := fast(t, filepath.Join(t.TempDir(), "next"))
		if _, err := (Restore{Snapshot: to.Data, Node: next}).Run(); err != nil {
			t.Fatal(err)
		}
		stop(t, start(t, next))
	}
}

func TestAFolderThatIsBehindItsMarkIsRefused(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	n := start(t, s)
	stop(t, n)
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(s.Data)); err != nil {
		t.Fatal(err)
	}
	n = start(t, s)
	last := lock(t, n.Client(), "a")
	stop(t, n)

	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, s, ErrRepeats, "is empty, but")
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.Data, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, s, ErrRepeats, "is older than")

	// Restored in its place with too little of a bump, and with enough.
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	_, err := Restore{Snapshot: backup, Node: s, Bump: 1}.Run()
	if !errors.Is(err, ErrRepeats) || !strings.Contains(err.Error(), "is too little") {
		t.Errorf("a bump of 1: %v", err)
	}
	if _, err := (Restore{Snapshot: backup, Node: s}).Run(); err != nil {
		t.Fatal(err)
	}
	n = start(t, s)
	defer stop(t, n)
	if token := lock(t, n.Client(), "a"); token <= last {
		t.Errorf("token %d after %d", token, last)
	}
}

func TestAKilledRestoreLeavesNoFolderThatStarts(t *testing.T) {
	h := newHistory(t)
	bad := h.file + "-cut"
	text, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	to := fast(t, filepath.Join(t.TempDir(), "restored"))
	_, err = Restore{Snapshot: bad, Node: to}.Run()
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "it was cut short, or is no snapshot") {
		t.Errorf("half a snapshot: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(to.Data))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, again := range []bool{false, true} {
		_, err := Restore{Snapshot: h.file, Node: to}.Run()
		if refused := errors.Is(err, ErrSettings); refused != again || !again && err != nil {
			t.Errorf("restored before %t: %v", again, err)
		}
	}
}

func TestNodesRestoredAlikeAreOneCluster(t *testing.T) {
	h := newHistory(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	peers := []Peer{{"a", freePort(t)}, {"b", freePort(t)}, {"c", freePort(t)}}
	nodes := make(chan *Node, 3)
	for _, p := range peers {
		s := fast(t, filepath.Join(t.TempDir(), p.Name))
		s.Name, s.Peers = p.Name, peers
		done, err := Restore{Snapshot: h.file, Node: s}.Run()
		if err != nil || done.After <= h.last {
			t.Fatalf("%+v, %v", done, err)
		}
		go func() {
			n, err := startFree(ctx, s)
			if err != nil {
				t.Error(err)
			}
			nodes <- n
		}()
	}
	for range peers {
		n := <-nodes
		if n == nil {
			t.FailNow()
		}
		defer stop(t, n)
		if token := lock(t, n.Client(), "a"); token <= h.last {
			t.Errorf("token %d after %d", token, h.last)
		}
	}
}

func TestARestoreThatForgotTheNodesTLSIsRefused(t *testing.T) {
	h := newHistory(t)
	plain := fast(t, filepath.Join(t.TempDir(), "restored"))
	plain.Name, plain.Peers = "a", []Peer{{"a", freePort(t)}}
	secure := plain
	secure.Data = filepath.Join(t.TempDir(), "restored")
	secret := newCA(t).sign(1, time.Now().Add(time.Hour))
	for _, tls := range []bool{false, true} {
		right, wrong := plain, plain
		if wrong.Peer = secret; tls {
			right, wrong = secure, secure
			right.Peer = secret
		}
		if _, err := (Restore{Snapshot: h.file, Node: right, PeerTLS: tls}).Run(); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, wrong, ErrSettings, "--peer-tls?")
		stop(t, start(t, right))
	}
}
