package sqlitelease

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// readOnly makes the folder of path read-only: by a mount for root, whom no
// mode stops.
func readOnly(t *testing.T, path string) {
	if os.Getuid() != 0 {
		if err := os.Chmod(path, 0o400); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := filepath.Dir(path)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("root without the right to mount: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}
