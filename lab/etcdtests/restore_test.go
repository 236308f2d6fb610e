package etcdtests

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// TestARestoreRepeatsTokensUnlessItIsBumped: etcd's counter is in the data that is
// restored. Without a bump the fence refuses what comes; with one, tokens go on.
func TestARestoreRepeatsTokensUnlessItIsBumped(t *testing.T) {
	for name, bump := range map[string]uint64{"as it is": 0, "bumped": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
			fences := fence.NewMemory()
			p := w.party()
			w.must(p.auth.Release(w.long(), p.acquire(ask("job", lasting))))
			file := w.save()
			var last fence.Grant
			for range 20 {
				g := p.acquire(ask("job", lasting))
				_, err := fences.Raise(w.long(), "job", g.Grant)
				w.must(err)
				w.must(p.auth.Release(w.long(), g))
				last = g.Grant
			}
			w.must(p.auth.Close())
			w.restore(file, bump)
			g := w.party().acquire(ask("job", lasting))
			_, err := fences.Raise(w.long(), "job", g.Grant)
			switch refused := errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrRepeated); {
			case bump == 0 && (g.Token > last.Token || !refused):
				t.Errorf("after token %d came %d, and the fence said %v", last.Token, g.Token, err)
			case bump > 0 && (g.Token <= last.Token || err != nil):
				t.Errorf("bumped, after token %d came %d, and the fence said %v", last.Token, g.Token, err)
			}
		})
	}
}

func (w *world) save() string {
	w.Helper()
	from, err := w.raw.Snapshot(w.long())
	w.must(err)
	defer from.Close()
	name := filepath.Join(w.TempDir(), "snapshot")
	to, err := os.Create(name)
	w.must(err)
	_, err = io.Copy(to, from)
	w.must(errors.Join(err, to.Close()))
	return name
}

// restore puts the only member back to what the file holds.
func (w *world) restore(file string, bump uint64) {
	w.Helper()
	c := w.cluster
	w.must(c.Kill(0))
	w.must(os.RemoveAll(c.Dir(0)))
	w.must(snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: c.Name(0), OutputDataDir: c.Dir(0),
		PeerURLs: []string{c.PeerURL(0)}, InitialCluster: c.Name(0) + "=" + c.PeerURL(0), InitialClusterToken: "restored",
		RevisionBump: bump, MarkCompacted: bump > 0,
	}))
	w.must(c.Restart(w.long(), 0))
}
