//go:build linux || darwin

package sqlitelease

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func inodeIn(st os.FileInfo) (i inode, names uint64, err error) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, 0, errors.New(st.Name() + " has no inode")
	}
	//nolint:unconvert // the types depend on the system
	return inode{int64(sys.Dev), int64(sys.Ino)}, uint64(sys.Nlink), nil
}

// giveName gives the finished file its name, unless that is taken (fs.ErrExist).
// It never has two names, not even for a moment, wherever the file system can
// do that.
func giveName(tmp, path string) error {
	err := renameNew(tmp, path)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		err = os.Link(tmp, path) // the caller removes the other name
	}
	return err
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
