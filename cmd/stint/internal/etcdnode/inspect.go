package etcdnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/proto"
)

// originKey holds, in the data, where the data comes from. It lies outside of
// every prefix of leases.
const originKey = "stint-serve/origin"

// origin is what the node that leads writes once.
type origin struct {
	Cluster string `json:"cluster"`
	Index   uint64 `json:"index"` // the log had at least so many entries then
}

// found is what a data folder holds, read while no node runs on it.
type found struct {
	fresh    bool   // nothing yet
	cluster  string // by the log
	index    uint64 // of the log's last entry
	revision int64  // of the database, which may be behind the log
	origin   origin // zero: none yet
	users    bool   // users have been set up
	members  []string
}

func dbFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
func walDir(dir string) string { return filepath.Join(dir, "member", "wal") }

// inspect reads a data folder as far as it can be told whether a node may run
// on it. It changes nothing.
func inspect(dir string) (f found, err error) {
	if !wal.Exist(walDir(dir)) {
		if _, err := os.Stat(dbFile(dir)); err == nil {
			return f, damaged(dir, "there is a database, but no log", nil)
		}
		return found{fresh: true}, nil
	}
	if err := caught(func() error { return f.readLog(walDir(dir)) }); err != nil {
		return f, damaged(dir, "its log cannot be read", err)
	}
	if err := caught(func() error { return f.readDatabase(dbFile(dir)) }); err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return f, &Refusal{Kind: ErrInUse, What: "another program has the database in " + dir + " open",
				Data: "this node was not started, and nothing was changed", Do: "is an etcd running on this folder? Stop it first"}
		}
		return f, damaged(dir, "its database cannot be read", err)
	}
	return f, nil
}

// caught turns the ways in which a reader of damaged data gives up into errors:
// a panic, a fault under a memory map, a last word in the log.
func caught(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); ok {
				err = e
				return
			}
			err = fmt.Errorf("%v", p)
		}
	}()
	return read()
}

// throwing is a logger whose last words are panics, for caught.
func throwing() *zap.Logger {
	return zap.NewNop().WithOptions(zap.WithFatalHook(thrower{}), zap.WithPanicHook(thrower{}))
}

type thrower struct{}

func (thrower) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	panic(entryError{e.Message, fieldError(fields)})
}

func (f *found) readLog(dir string) error {
	lg := throwing()
	snaps, err := wal.ValidSnapshotEntries(lg, dir)
	if err != nil {
		return err
	}
	if len(snaps) == 0 {
		return errors.New("it has no beginning")
	}
	last := snaps[len(snaps)-1]
	w, err := wal.OpenForRead(lg, dir, last)
	if err != nil {
		return err
	}
	defer w.Close()
	text, _, entries, err := w.ReadAll()
	if err != nil {
		return err
	}
	var m etcdserverpb.Metadata
	if err := proto.Unmarshal(text, &m); err != nil {
		return err
	}
	f.cluster = clusterName(m.GetClusterID())
	f.index = last.GetIndex()
	if n := len(entries); n > 0 {
		f.index = max(f.index, entries[n-1].GetIndex())
	}
	return nil
}

func clusterName(id uint64) string { return fmt.Sprintf("%x", id) }

func (f *found) readDatabase(file string) error {
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		if info, err := os.Stat(file); err != nil || info.Size() < tx.Size() {
			return errors.Join(err, fmt.Errorf("it is shorter than the %d bytes that it speaks of", tx.Size()))
		}
		if b := tx.Bucket(schema.Auth.Name()); b != nil {
			f.users = bytes.Equal(b.Get(schema.AuthEnabledKeyName), []byte{1})
		}
		if b := tx.Bucket(schema.Members.Name()); b != nil {
			if err := b.ForEach(func(_, v []byte) error { return f.addMember(v) }); err != nil {
				return err
			}
		}
		b := tx.Bucket(schema.Key.Name())
		if b == nil {
			return nil
		}
		return b.ForEach(f.addKey)
	})
}

func (f *found) addMember(text []byte) error {
	var m struct {
		PeerURLs []string `json:"peerURLs"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	f.members = append(f.members, m.PeerURLs...)
	return nil
}

func (f *found) addKey(k, v []byte) error {
	f.revision = mvcc.BytesToRev(k).Main
	if !bytes.Contains(v, []byte(originKey)) {
		return nil
	}
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(v, &kv); err != nil {
		return err
	}
	if string(kv.Key) != originKey || mvcc.IsTombstone(k) {
		return nil
	}
	return json.Unmarshal(kv.Value, &f.origin)
}
