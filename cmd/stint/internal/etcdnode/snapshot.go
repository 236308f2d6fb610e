package etcdnode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// Taken is what a snapshot holds.
type Taken struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Revision int64  `json:"revision"` // tokens are revisions
	Keys     int    `json:"keys"`
}

// Snapshot writes all data, as one node has it at one moment, into a file, which
// is checked and complete when it appears under its name. Where users are set up
// it takes root.
func Snapshot(ctx context.Context, c *clientv3.Client, file string) (t Taken, err error) {
	r, err := c.Snapshot(ctx)
	if err != nil {
		return t, err
	}
	defer r.Close()
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part-*")
	if err != nil {
		return t, err
	}
	defer os.Remove(f.Name()) // nothing is there when it was renamed
	sum := sha256.New()
	tail := &lastBytes{to: sum}
	n, err := io.Copy(io.MultiWriter(f, tail), r)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return t, err
	}
	if !bytes.Equal(sum.Sum(nil), tail.kept) {
		return t, fmt.Errorf("what arrived (%d bytes) does not match its check sum", n)
	}
	var st snapshot.Status
	err = caught(func() error { st, err = snapshot.NewV3(throwing()).Status(f.Name()); return err })
	if err != nil {
		return t, err
	}
	return Taken{file, n, st.Revision, st.TotalKey}, os.Rename(f.Name(), file)
}

// lastBytes keeps back the last bytes, which are the check sum of those before.
type lastBytes struct {
	to   io.Writer
	kept []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if n := len(l.kept) - sha256.Size; n > 0 {
		if _, err := l.to.Write(l.kept[:n]); err != nil {
			return 0, err
		}
		l.kept = append(l.kept[:0], l.kept[n:]...)
	}
	return len(p), nil
}
