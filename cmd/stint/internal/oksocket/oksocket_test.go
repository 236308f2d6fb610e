package oksocket

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnAnswerCarriesTheLease(t *testing.T) {
	s, err := Serve(func() Answer { return Answer{Name: "k", Token: 7, Grant: "7.x", Left: time.Minute} })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := Ask(s.Path, 5*time.Second)
	if err != nil || a.Token != 7 || a.Name != "k" || a.Left <= 0 || a.Left >= time.Minute {
		t.Errorf("%+v, %v; want token 7 with a little less than a minute left", a, err)
	}
}

func TestOnlyItsUserReachesTheSocketAndNothingIsLeft(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	s, err := Serve(func() Answer { return Answer{} })
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.Path)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder mode %v, %v; want 0700", info.Mode(), err)
	}
	s.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there after Close: %v", dir, err)
	}
}

// A stint that was killed could not remove its folder.
func TestTheFolderOfAKilledStintIsRemovedByTheNext(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	socket := func(name string, alive bool) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if alive {
			t.Cleanup(func() { l.Close() })
		} else {
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		return dir
	}
	old := time.Now().Add(-time.Hour)
	dead, live, young := socket("stint-1", false), socket("stint-2", true), socket("stint-3", false)
	for _, dir := range []string{dead, live} {
		if err := os.Chtimes(filepath.Join(dir, "s"), old, old); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Serve(func() Answer { return Answer{} })
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for dir, want := range map[string]bool{dead: false, live: true, young: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v; want it there: %v", filepath.Base(dir), err, want)
		}
	}
}

// A socket's address holds about a hundred bytes.
func TestALongFolderIsPassedOver(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", long)
	t.Setenv("TMPDIR", long)
	s, err := Serve(func() Answer { return Answer{Left: time.Minute} })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if a, err := Ask(s.Path, 5*time.Second); err != nil || a.Left <= 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if left, _ := filepath.Glob(long + "/stint-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// listen is a stint that was frozen: the kernel still accepts for it.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return path
}

func TestAFrozenStintIsANo(t *testing.T) {
	release := make(chan struct{})
	path := listen(t, func(net.Conn) { <-release })
	defer close(release)
	if a, err := Ask(path, 50*time.Millisecond); err == nil {
		t.Errorf("an answer from nobody: %+v", a)
	}
}

func TestADelayedAnswerIsNeverAStaleYes(t *testing.T) {
	path := listen(t, func(c net.Conn) {
		// The lease had 20 ms left when it was looked at, and the answer is on
		// its way for longer.
		_, _ = c.Read(make([]byte, 1))
		time.Sleep(30 * time.Millisecond)
		_ = json.NewEncoder(c).Encode(Answer{Token: 7, Left: 20 * time.Millisecond})
	})
	a, err := Ask(path, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if a.Left > 0 || a.Why == "" {
		t.Errorf("%+v; want no time left, and why", a)
	}
}

func TestASocketThatIsGoneIsANo(t *testing.T) {
	if a, err := Ask(filepath.Join(t.TempDir(), "s"), time.Second); err == nil {
		t.Errorf("an answer from nobody: %+v", a)
	}
}
