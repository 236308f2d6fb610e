package etcdnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openFolder makes the data folder, private to its owner, and takes it: two
// nodes on one folder would destroy it.
func openFolder(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "stint.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid, _ := os.ReadFile(f.Name())
		f.Close()
		by := "another process"
		if p := strings.TrimSpace(string(pid)); p != "" {
			by = "the process " + p
		}
		return nil, &Refusal{Kind: ErrInUse, What: fmt.Sprintf("the data folder %s is in use by %s", dir, by),
			Data: "this node was not started, and nothing was changed",
			Do:   "stop that one first, or give --data another folder"}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the data folder %s cannot be locked: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		if noRoom(err) { // the number is for people
			err = nil
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}

// mark is how far a node got, kept beside its data folder: what is put back from
// a backup is behind it.
type mark struct {
	Cluster  string `json:"cluster"`
	Index    uint64 `json:"index"`    // of the last entry of the log that was applied
	Revision int64  `json:"revision"` // tokens are revisions
}

func markFile(dir string) string { return filepath.Clean(dir) + "-mark" }

// readMark returns a zero mark where there is none.
func readMark(dir string) (mark, error) {
	var m mark
	text, err := os.ReadFile(markFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s cannot be read: %w", markFile(dir), err)
	}
	return m, nil
}

// writeMark replaces the mark. After a crash the old one or the new one is there.
func writeMark(dir string, m mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(filepath.Clean(dir)), filepath.Base(markFile(dir))+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there when it was renamed
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), markFile(dir))
}

// makeFolders makes a folder and those above it, and returns those that were not
// there before, the lowest first.
func makeFolders(dir string) (made []string, err error) {
	for above := dir; ; above = filepath.Dir(above) {
		if _, err := os.Lstat(above); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, above)
	}
	return made, os.MkdirAll(dir, 0o700)
}
