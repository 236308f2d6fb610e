package sqlitelease

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A container into which only the file is mounted has a -wal of its own.
func TestAFileMountedWithoutItsFolderIsRefused(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	mustAcquire(t, a, ask("x", "n", time.Minute))
	inside := filepath.Join(t.TempDir(), "l.db")
	bind(t, path, inside)
	refused(t, inside, "mount the folder, not the file", "Nothing was changed")
	bind(t, markPath(path), markPath(inside))
	refused(t, inside, "mount the folder, not the file")
	if _, err := os.Stat(inside + "-wal"); err == nil {
		t.Error("the refusal made a -wal")
	}
}

func TestAMountedFolderIsTheSameAuthority(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute))
	dir := filepath.Join(t.TempDir(), "inside")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	bind(t, filepath.Dir(path), dir)
	b := openAt(t, filepath.Join(dir, filepath.Base(path)), Options{})
	if _, err := b.Renew(t.Context(), g); err != nil {
		t.Error(err)
	}
	b.Close()
}

// bind mounts what is at from, at to.
func bind(t *testing.T, from, to string) {
	t.Helper()
	if _, err := os.Stat(to); err != nil {
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("no right to mount, as root has in CI: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(to, 0); err != nil {
			t.Error(err)
		}
	})
}
