package sqlitelease

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

func asHost(boot, timens string) func() (host, error) {
	return func() (host, error) { return host{boot, timens}, nil }
}

// onHost opens path as a machine of that boot would.
func onHost(t *testing.T, path string, c authority.Clock, boot, timens string) (*Authority, error) {
	a, err := open(context.Background(), path, Options{Clock: c}, asHost(boot, timens))
	if err == nil {
		t.Cleanup(func() { a.Close() })
	}
	return a, err
}

func TestAfterARebootEveryLeaseIsWaitedOutOnce(t *testing.T) {
	path, c := newPath(t), newFakeClock()
	a, err := onHost(t, path, c, "boot1", "ns")
	if err != nil {
		t.Fatal(err)
	}
	old := mustAcquire(t, a, ask("held", "n1", 10*time.Second))
	gone := mustAcquire(t, a, ask("released", "n2", 10*time.Second))
	if err := a.Release(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	a.Close()

	c.now.Store(int64(time.Minute)) // the new boot's clock starts anew
	b, err := onHost(t, path, c, "boot2", "ns")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Acquire(t.Context(), ask("held", "n3", time.Second))
	var h *authority.HeldError
	if !errors.As(err, &h) || h.State.Left != 10*time.Second {
		t.Fatalf("free at once, or not for a full length: %v", err)
	}
	if _, err := b.Acquire(t.Context(), ask("held", "n1", time.Second)); !errors.Is(err, authority.ErrHeld) {
		t.Errorf("the nonce of the other boot got the lease: %v", err)
	}
	if _, err := b.Renew(t.Context(), old); !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("a holder of the other boot renewed: %v", err)
	}
	if g := mustAcquire(t, b, ask("released", "n4", time.Second)); g.Token <= gone.Token {
		t.Errorf("token %d after %d", g.Token, gone.Token)
	}
	c.advance(10*time.Second - 1)
	if _, err := b.Acquire(t.Context(), ask("held", "n5", time.Second)); !errors.Is(err, authority.ErrHeld) {
		t.Errorf("free before a full length: %v", err)
	}
	c.advance(1)
	if g := mustAcquire(t, b, ask("held", "n6", time.Second)); g.Token <= old.Token {
		t.Errorf("token %d after %d", g.Token, old.Token)
	}
}

func TestAnotherTimeNamespaceOfTheSameBootIsRefused(t *testing.T) {
	path, c := newPath(t), newFakeClock()
	if _, err := onHost(t, path, c, "boot", "time:[1]"); err != nil {
		t.Fatal(err)
	}
	_, err := onHost(t, path, c, "boot", "time:[2]")
	if err == nil || !strings.Contains(err.Error(), "time namespace") || !strings.Contains(err.Error(), "Nothing was changed") {
		t.Errorf("got %v", err)
	}
}

// TestARealTimeNamespaceIsRefused starts the test binary in a namespace whose
// boot clock is an hour ahead.
func TestARealTimeNamespaceIsRefused(t *testing.T) {
	path := written(t)
	args := []string{"--fork", "--time", "--boottime", "3600"}
	if os.Getuid() != 0 {
		args = append([]string{"--map-root-user"}, args...)
	}
	cmd := exec.Command("unshare", append(args, os.Args[0], path, "x", "n")...)
	cmd.Env = append(os.Environ(), childEnv+"=hold")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "time namespace") {
		const how = "needs unshare (apt-get install util-linux) and the right to make namespaces; the test before does it with a given identity"
		if !strings.HasPrefix(string(out), "error") && os.Getenv("CI") == "" {
			t.Skipf("%s: %v: %s", how, err, out)
		}
		t.Errorf("got %v: %s (%s)", err, out, how)
	}
}

func TestACopyDemandsABump(t *testing.T) {
	path := written(t)
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := openAt(t, path, Options{})
	late := mustAcquire(t, a, ask("x", "late", time.Minute)) // after the backup
	a.Close()
	path = filepath.Join(t.TempDir(), "restored.db") // without the mark
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "is a copy", "stint bump", "Nothing was changed")

	before, after, err := Bump(t.Context(), path, 0)
	if err != nil || before != 3 || after != 3+BumpBy {
		t.Fatalf("bumped from %d to %d, %v", before, after, err)
	}
	b := openAt(t, path, Options{})
	if g := mustAcquire(t, b, ask("x", "next", time.Minute)); g.Token <= late.Token || g.Token <= BumpBy {
		t.Errorf("token %d after the restore, %d was handed out before", g.Token, late.Token)
	}
	s, err := b.Inspect(t.Context(), "a")
	if err != nil || !s.Held {
		t.Errorf("the bump dropped a lease: %+v, %v", s, err)
	}
	g := authority.Grant{Grant: s.Grant, Name: "a", Length: s.Length}
	if _, err := b.Renew(t.Context(), g); !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("a lease from the copy was renewed: %v", err)
	}
}

func TestABackupRestoredInPlaceDemandsABump(t *testing.T) {
	path := written(t)
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := openAt(t, path, Options{})
	late := mustAcquire(t, a, ask("x", "late", time.Minute))
	a.Close()
	if err := os.WriteFile(path, backup, 0o600); err != nil { // as cp does: the same inode
		t.Fatal(err)
	}
	refused(t, path, "was set back", "stint bump", "Nothing was changed")
	if _, after, err := Bump(t.Context(), path, 10); err != nil || after != late.Token+10 {
		t.Fatalf("bumped to %d, %v", after, err)
	}
	b := openAt(t, path, Options{})
	if g := mustAcquire(t, b, ask("x", "next", time.Minute)); g.Token <= late.Token {
		t.Errorf("token %d after the restore, %d was handed out before", g.Token, late.Token)
	}
}

func TestABumpInPlaceKeepsLeases(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute))
	if _, after, err := Bump(t.Context(), path, 10); err != nil || after != 11 {
		t.Fatalf("bumped to %d, %v", after, err)
	}
	if _, err := a.Renew(t.Context(), g); err != nil {
		t.Error(err)
	}
	if g := mustAcquire(t, a, ask("y", "m", time.Minute)); g.Token != 12 {
		t.Errorf("token %d after a bump to 11", g.Token)
	}
	for _, n := range []int64{-1, 1 << 53} {
		if _, _, err := Bump(t.Context(), path, fence.Token(n)); !errors.Is(err, authority.ErrInvalid) {
			t.Errorf("a bump by %d: %v", n, err)
		}
	}
	if _, _, err := Bump(t.Context(), newPath(t), 1); err == nil {
		t.Error("a bump made a file")
	}
}

func TestACloneOfAMachineWaitsToo(t *testing.T) {
	// The inode is that of the image, the device may be numbered anew.
	path, c := newPath(t), newFakeClock()
	a, err := onHost(t, path, c, "boot1", "ns")
	if err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, a, ask("x", "n", time.Minute))
	if err := a.writer.conn.Exec(`UPDATE authority SET dev = dev + 1`); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := onHost(t, path, c, "boot1", "ns"); err == nil || !strings.Contains(err.Error(), "copy") {
		t.Errorf("another device in the same boot: %v", err)
	}
	b, err := onHost(t, path, c, "boot2", "ns")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), ask("x", "m", time.Minute)); !errors.Is(err, authority.ErrHeld) {
		t.Errorf("a clone took the lease at once: %v", err)
	}
}

func TestNetworkFileSystemsAreRefusedByName(t *testing.T) {
	err := networked("/mnt/leases.db", "NFS")
	for _, w := range []string{"NFS", "stint serve", "Nothing was changed"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	if err := localOnly(t.TempDir()); err != nil {
		t.Errorf("the folder for temporary files is refused: %v", err)
	}
}
