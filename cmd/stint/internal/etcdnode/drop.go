package etcdnode

import (
	"bytes"
	"errors"
	"strings"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// dropLocks takes all leases out of a database on which no node runs, and every
// key that hung on one, every lock under the prefixes, and the note where the
// data came from. Otherwise a restore would bring back holders that are long
// gone, or, if they live, are shut out by nothing. The keys vanish from the
// history too, which the restore has closed.
//
// It changes nothing that the same file and the same prefixes would not change
// on another node.
func dropLocks(file string, prefixes []string) (done Restored, err error) {
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = caught(func() error {
		return db.Update(func(tx *bolt.Tx) error {
			if done.Leases, err = empty(tx, schema.Lease.Name()); err != nil {
				return err
			}
			// An alarm of the old nodes would refuse every grant.
			if _, err := empty(tx, schema.Alarm.Name()); err != nil {
				return err
			}
			keys := tx.Bucket(schema.Key.Name())
			if keys == nil {
				return errors.New("it has no keys at all")
			}
			drop, last, err := locks(keys, prefixes)
			if err != nil {
				return err
			}
			done.Before, done.Keys = last, len(drop)
			return remove(keys, drop)
		})
	})
	return done, err
}

// empty removes what is in a bucket, and counts it.
func empty(tx *bolt.Tx, bucket []byte) (n int, err error) {
	b := tx.Bucket(bucket)
	if b == nil {
		return 0, nil
	}
	n = b.Stats().KeyN
	if err := tx.DeleteBucket(bucket); err != nil {
		return n, err
	}
	_, err = tx.CreateBucket(bucket)
	return n, err
}

// locks finds the keys to drop, and the last revision that is not the restore's
// own empty one.
func locks(keys *bolt.Bucket, prefixes []string) (drop map[string]bool, last int64, err error) {
	drop = map[string]bool{}
	err = keys.ForEach(func(k, v []byte) error {
		if len(v) == 0 {
			return nil
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(v, &kv); err != nil {
			return err
		}
		last = mvcc.BytesToRev(k).Main
		key := string(kv.Key)
		switch {
		case mvcc.IsTombstone(k):
			delete(drop, key)
		case kv.Lease != 0, isLock(key, prefixes), key == originKey:
			drop[key] = true
		default:
			delete(drop, key)
		}
		return nil
	})
	return drop, last, err
}

// isLock: names' floors stay, since they only ever raise tokens.
func isLock(key string, prefixes []string) bool {
	for _, p := range prefixes {
		p = strings.TrimSuffix(p, "/")
		if strings.HasPrefix(key, p+"/lock/") || strings.HasPrefix(key, p+"/client/") {
			return true
		}
	}
	return false
}

// remove takes all revisions of the keys out.
func remove(keys *bolt.Bucket, drop map[string]bool) error {
	var dead [][]byte
	err := keys.ForEach(func(k, v []byte) error {
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(v, &kv); err != nil {
			return err
		}
		if drop[string(kv.Key)] {
			dead = append(dead, bytes.Clone(k))
		}
		return nil
	})
	for _, k := range dead {
		err = errors.Join(err, keys.Delete(k))
	}
	return err
}
