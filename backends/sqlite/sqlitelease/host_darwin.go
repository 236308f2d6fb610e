package sqlitelease

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func hostIdentity() (host, error) {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return host{}, fmt.Errorf("the boot of this host cannot be told, so deadlines in a file cannot be trusted: %w", err)
	}
	return host{boot: boot}, nil
}

func renameNew(from, to string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCL)
}

// isMount: no file is a mount point here.
func isMount(string) (bool, error) { return false, nil }

func localOnly(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("sqlitelease: %s: %w", path, err)
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return networked(path, unix.ByteSliceToString(st.Fstypename[:]))
	}
	return nil
}
