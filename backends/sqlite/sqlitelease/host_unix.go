//go:build linux || darwin

package sqlitelease

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func inodeIn(st os.FileInfo) (inode, error) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, errors.New(st.Name() + " has no inode")
	}
	return inode{int64(sys.Dev), int64(sys.Ino)}, nil
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
