package sqlitelease

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

func TestAFileWithTwoNamesIsRefused(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute))
	other := filepath.Join(filepath.Dir(path), "other.db")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	refused(t, other, "2 names", "Nothing was changed")
	refused(t, path, "2 names")
	if _, _, err := Bump(t.Context(), other, 1); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("a bump let the second name in: %v", err)
	}
	if _, err := a.Renew(t.Context(), g); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("renewed in a file with two names: %v", err)
	}
	if _, err := a.Acquire(t.Context(), ask("y", "m", time.Minute)); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("granted from a file with two names: %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(t.Context(), g); err != nil {
		t.Errorf("the second name is gone: %v", err)
	}
}

// A renamed file leaves its -wal behind, and with it the newest leases.
func TestAFileThatLeftItsMarkDemandsABump(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	old := mustAcquire(t, a, ask("x", "n", time.Minute))
	moved := filepath.Join(filepath.Dir(path), "moved.db")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	refused(t, moved, "not beside its mark", "mount the folder, not the file", "stint bump")
	if _, err := os.Stat(markPath(moved)); err == nil {
		t.Error("the refusal made a mark")
	}
	a.Close()
	if _, _, err := Bump(t.Context(), moved, 0); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, moved, Options{})
	if g := mustAcquire(t, b, ask("y", "m", time.Minute)); g.Token <= old.Token {
		t.Errorf("token %d after %d", g.Token, old.Token)
	}
}

func TestALostMarkDemandsABump(t *testing.T) {
	path := written(t)
	if err := os.Remove(markPath(path)); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "its mark is lost", "stint bump")
	if _, after, err := Bump(t.Context(), path, 10); err != nil || after != 13 {
		t.Fatal(after, err)
	}
	a := openAt(t, path, Options{})
	if _, err := a.Acquire(t.Context(), ask("a", "m", time.Minute)); !errors.Is(err, authority.ErrHeld) {
		t.Errorf("the bump dropped a lease: %v", err)
	}
}

func TestAllWhoCreateTheFileAtOnceUseOne(t *testing.T) {
	path := newPath(t)
	const n = 16
	opened := make(chan error, n)
	for range n {
		go func() {
			a, err := Open(t.Context(), path, Options{})
			if err == nil {
				if _, err = a.Acquire(t.Context(), ask("x", "n", time.Minute)); errors.Is(err, authority.ErrHeld) {
					err = errors.New("the nonce of the living grant was refused")
				}
				a.Close()
			}
			opened <- err
		}()
	}
	for range n {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
	s, err := openAt(t, path, Options{}).Inspect(t.Context(), "x")
	if err != nil || s.Grant.Token != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A process that found no file may be stopped until another has made it and
// granted from it.
func TestAFileThatAppearsWhileItIsMadeIsUsed(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute)) // -wal and mark are there
	h, err := hostIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, bumps := range []bool{false, true} {
		if err := create(t.Context(), path, h, bumps); err != nil {
			t.Errorf("bumps %v: %v", bumps, err)
		}
	}
	if _, err := a.Renew(t.Context(), g); err != nil {
		t.Errorf("the file was made twice: %v", err)
	}
}
