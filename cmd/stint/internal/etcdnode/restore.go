package etcdnode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// DefaultBump is how far a restore raises the counter of tokens unless told
// otherwise: further than it got since the snapshot, if fewer than about half as
// many leases were taken since.
const DefaultBump = 1_000_000

// Restore says what to restore, and where to.
type Restore struct {
	// Snapshot is a file that Snapshot wrote, or another etcd snapshot, or a data
	// folder on which no node runs.
	Snapshot string
	Bump     uint64   // how far the counter is raised; zero: DefaultBump
	Prefixes []string // whose locks are dropped even if no lease is on them; nil: DefaultPrefix
	PeerTLS  bool     // the nodes speak TLS with each other
	// Node has the Data folder, Name and Peers of the node that is restored.
	// Several nodes are each restored from the same file, with the same Bump.
	Node Settings
}

// Restored is what a restore did.
type Restored struct {
	Data    string    `json:"data"`
	Cluster string    `json:"cluster"`
	Taken   time.Time `json:"snapshot_written"` // by the file's date
	Before  int64     `json:"revision_of_snapshot"`
	After   int64     `json:"revision_now"` // every new token is higher
	Leases  int       `json:"leases_dropped"`
	Keys    int       `json:"keys_dropped"`
}

// Run makes a data folder from a snapshot: with a counter that is Bump higher,
// the history before it closed to watchers, as another cluster than the one that
// the snapshot is of, and without any lease and lock. The folder appears at the
// end, complete; nothing is served yet.
func (r Restore) Run() (done Restored, err error) {
	r.Node = r.Node.withDefaults()
	if r.Bump == 0 {
		r.Bump = DefaultBump
	}
	if r.Prefixes == nil {
		r.Prefixes = []string{DefaultPrefix}
	}
	if r.PeerTLS {
		r.Node.Peer.Cert = "(not needed yet)" // for the addresses' scheme
	}
	if err := r.check(); err != nil {
		return done, err
	}
	m, err := readMark(r.Node.Data)
	if err != nil {
		return done, damaged(r.Node.Data, "the mark beside it", err)
	}
	parent := filepath.Dir(filepath.Clean(r.Node.Data))
	made, err := makeFolders(parent)
	defer func() {
		if err != nil {
			for _, dir := range made {
				os.Remove(dir) // only what is empty goes
			}
		}
	}()
	if err != nil {
		return done, r.Node.unusable(err)
	}
	temp, err := os.MkdirTemp(parent, filepath.Base(r.Node.Data)+".restoring-")
	if err != nil {
		return done, r.Node.ended(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if done, err = r.build(temp); err != nil {
		return done, err
	}
	if done.After <= m.Revision {
		return done, r.tooLow(done, m)
	}
	if err := os.Rename(temp, r.Node.Data); err != nil {
		return done, r.Node.ended(err)
	}
	return done, writeMark(r.Node.Data, mark{Cluster: done.Cluster, Revision: done.After})
}

// mostRevision: tokens are exact as JSON numbers up to 2^53; a counter that a
// restore raised is to leave room for a life of locks.
const mostRevision = 1 << 52

func (r Restore) tooLow(done Restored, m mark) error {
	return &Refusal{Kind: ErrRepeats, What: fmt.Sprintf("--bump %d is too little: the counter would go on at %d, and a node on %s has been at %d (says %s)",
		r.Bump, done.After, r.Node.Data, m.Revision, markFile(r.Node.Data)),
		Data: "nothing was changed", Do: fmt.Sprintf("give --bump %d at least", m.Revision-done.Before+DefaultBump)}
}

func (r Restore) check() error {
	refuse := func(err error) error {
		return &Refusal{Kind: ErrSettings, What: "it cannot be restored so", Err: err, Data: "nothing was changed", Do: "see: stint restore --help"}
	}
	var wrong []error
	if !filepath.IsAbs(r.Node.Data) {
		wrong = append(wrong, fmt.Errorf("the data folder %q has to be an absolute path", r.Node.Data))
	}
	if wrong = append(wrong, r.Node.checkPeers()...); len(wrong) > 0 {
		return refuse(errors.Join(wrong...))
	}
	if r.Bump > mostRevision {
		return refuse(fmt.Errorf("--bump %d leaves no room for tokens: at most %d", r.Bump, int64(mostRevision)))
	}
	names, err := os.ReadDir(r.Node.Data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r.Node.unusable(err)
	}
	if slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() != "stint.lock" }) {
		return &Refusal{Kind: ErrSettings, What: "there is data in " + r.Node.Data, Data: "nothing was changed",
			Do: "move that folder away first (a node must not run on it), or give --data another one"}
	}
	if len(names) > 0 { // only a lock that is left over
		if err := os.RemoveAll(r.Node.Data); err != nil {
			return r.Node.ended(err)
		}
	}
	return nil
}

// build makes the folder in temp.
func (r Restore) build(temp string) (done Restored, err error) {
	file, sum, err := r.source()
	if err != nil {
		return done, err
	}
	bad := func(err error) error {
		if noRoom(err) {
			return r.Node.ended(err)
		}
		if strings.Contains(err.Error(), "missing hash") { // etcd names a flag of its own tool
			err = errors.New("it does not end with a check sum: it was cut short, or is no snapshot")
		}
		return &Refusal{Kind: ErrDamaged, What: "the snapshot " + r.Snapshot + " cannot be restored", Err: err,
			Data: "nothing was changed", Do: "take another snapshot; what stint snapshot writes is checked when it is written"}
	}
	info, err := os.Stat(file)
	if err != nil {
		return done, bad(err)
	}
	err = caught(func() error {
		return snapshot.NewV3(throwing()).Restore(snapshot.RestoreConfig{
			SnapshotPath: file, SkipHashCheck: file != r.Snapshot,
			Name: r.Node.Name, OutputDataDir: temp,
			PeerURLs: []string{r.Node.peerURL(r.Node.self()).String()}, InitialCluster: r.Node.cluster(),
			// Nodes that were restored alike are one cluster, and no other one.
			InitialClusterToken: fmt.Sprintf("stint-restore-%x-%d", sum[:8], r.Bump),
			// Without the second, etcd ignores the first.
			RevisionBump: r.Bump, MarkCompacted: true,
		})
	})
	if err != nil {
		return done, bad(err)
	}
	done, err = dropLocks(dbFile(temp), r.Prefixes)
	if err != nil {
		return done, bad(err)
	}
	f, err := inspect(temp)
	if err != nil {
		return done, bad(err)
	}
	done.Data, done.Cluster, done.After, done.Taken = r.Node.Data, f.cluster, f.revision, info.ModTime()
	if done.After != done.Before+int64(r.Bump) || done.After > mostRevision {
		return done, bad(fmt.Errorf("its counter, at %d, cannot be raised by %d", done.Before, r.Bump))
	}
	return done, nil
}

// source is the file to restore, and its sum.
func (r Restore) source() (string, []byte, error) {
	file := r.Snapshot
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		// What only the log has is lost with it; the counter is raised anyway.
		file = dbFile(file)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", nil, &Refusal{Kind: ErrSettings, What: "there is no snapshot " + r.Snapshot, Err: err,
			Data: "nothing was changed", Do: "name a file of stint snapshot, or the data folder of a node that does not run"}
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", nil, err
	}
	return file, sum.Sum(nil), nil
}
