package sqlitelease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func hostIdentity() (host, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return host{}, fmt.Errorf("the boot of this host cannot be told, so deadlines in a file cannot be trusted: %w", err)
	}
	// Kernels before 5.6 have no time namespaces.
	ns, err := os.Readlink("/proc/self/ns/time")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return host{}, fmt.Errorf("the time namespace of this process cannot be told: %w", err)
	}
	return host{boot: strings.TrimSpace(string(b)), timens: ns}, nil
}

// remote are the file systems whose files other hosts may see, by statfs magic.
// FUSE is among them: sshfs and a local disk cannot be told apart there, and
// whether locks and shared memory work is up to each.
var remote = map[int64]string{
	0x6969: "NFS", 0x517B: "SMB", 0xFF534D42: "CIFS", 0xFE534D42: "SMB", 0x01021997: "9p", 0x65735546: "FUSE",
	0x00C36400: "Ceph", 0x5346414F: "AFS", 0x73757245: "Coda", 0x01161970: "GFS2", 0x7461636F: "OCFS2",
	0x0BD00BD0: "Lustre", 0x47504653: "GPFS", 0x786F4256: "VirtualBox shared", 0x7C7C6673: "Parallels shared", 0xBACBACBC: "VMware shared",
}

func localOnly(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("sqlitelease: %s: %w", path, err)
	}
	if kind, ok := remote[int64(uint32(st.Type))]; ok { //nolint:unconvert // its type depends on the architecture
		return networked(path, kind)
	}
	return nil
}

func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// isMount says whether the file itself was mounted at path. A kernel before 5.8
// does not tell; there the mark beside the file must do.
func isMount(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_TYPE, &st)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before 4.11, or an old sandbox
		return false, nil
	}
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}
