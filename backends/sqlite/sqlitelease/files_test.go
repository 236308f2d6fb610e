package sqlitelease

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
)

// refused wants Open to fail with an error that has all the words, and the file
// to be as it was.
func refused(t *testing.T, path string, words ...string) {
	t.Helper()
	before := digest(t, path)
	a, err := Open(t.Context(), path, Options{})
	if err == nil {
		a.Close()
		t.Fatalf("%s was opened", path)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	if digest(t, path) != before {
		t.Errorf("the refused file was changed")
	}
}

func digest(t *testing.T, path string) [32]byte {
	t.Helper()
	b, _ := os.ReadFile(path) // a folder, or nothing at all, is empty before and after
	return sha256.Sum256(b)
}

// written makes a file with three grants in it, closed.
func written(t *testing.T) string {
	t.Helper()
	path := newPath(t)
	a := openAt(t, path, Options{})
	for _, n := range []string{"a", "b", "c"} {
		mustAcquire(t, a, ask(n, "n"+n, time.Minute))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// patch overwrites bytes of a file.
func patch(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheFileAndItsFolderAreMadePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "leases #1?.db")
	openAt(t, path, Options{})
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, path + "-wal": 0o600, path + "-shm": 0o600, path + "-mark": 0o600} {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", p, st.Mode().Perm(), want)
		}
	}
	all, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if strings.Contains(e.Name(), ".new-") {
			t.Errorf("creation left %s", e.Name())
		}
	}
}

func TestFilesThatAreNotOursAreNotTouched(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "app.db")
	c, err := sqlite3.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec(`CREATE TABLE invoices (id INTEGER)`); err != nil {
		t.Fatal(err)
	}
	c.Close()
	refused(t, other, "another application", "Nothing was changed")

	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("notes "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, text, "no SQLite database")

	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, empty, "too short")
	refused(t, dir, "is a folder", "leases.db")
}

func TestANewerFileIsNotTouched(t *testing.T) {
	path := written(t)
	patch(t, path, 60, binary.BigEndian.AppendUint32(nil, schemaVersion+1))
	refused(t, path, "newer stint", "update")
}

func TestADamagedFileSaysSo(t *testing.T) {
	path := written(t)
	patch(t, path, 100, bytes.Repeat([]byte{0xAA}, 400))
	refused(t, path, "damaged", "stint bump")

	short := written(t)
	if err := os.Truncate(short, 50); err != nil {
		t.Fatal(err)
	}
	refused(t, short, "too short")
}

func TestAMissingFileIsOnlyMadeWhenWanted(t *testing.T) {
	path := newPath(t)
	if _, err := Open(t.Context(), path, Options{MustExist: true}); err == nil || !strings.Contains(err.Error(), "no leases file") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("it was created")
	}
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "symbolic link")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, filepath.Join(file, "leases.db"), "not a directory")
}

func TestURLsAreTakenLiterally(t *testing.T) {
	dir := t.TempDir()
	for raw, words := range map[string]string{
		"sqlite:leases.db":                 "relative",
		"sqlite://leases.db":               "relative",
		"sqlite://./leases.db":             "relative",
		"sqlite://":                        "names no file",
		"sqlite:///":                       "names no file",
		"sqlite://" + dir + "/":            "names no file",
		"sqlite://" + dir + "/a?mode=ro":   "query",
		"sqlite://" + dir + "/a#b":         "fragment",
		"sqlite://u:hidden@host/leases.db": "relative",
	} {
		a, err := authority.Open(t.Context(), raw)
		if err == nil {
			a.Close()
			t.Errorf("%s was opened", raw)
			continue
		}
		if !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "sqlite:///") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	a, err := authority.Open(t.Context(), "sqlite://"+dir+"/a%3Fb%23.db")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := os.Stat(filepath.Join(dir, "a?b#.db")); err != nil {
		t.Error(err)
	}
	if _, err := pathOf(&url.URL{Scheme: "sqlite", Path: "/ok"}); err != nil {
		t.Error(err)
	}
}

func TestAFullFileRefusesAndChangesNothing(t *testing.T) {
	a := openAt(t, newPath(t), Options{})
	mustAcquire(t, a, ask("first", "n", time.Minute))
	if err := a.writer.conn.Exec(`PRAGMA max_page_count = 1`); err != nil { // as many as there are
		t.Fatal(err)
	}
	var err error
	n := 0
	for ; err == nil && n < 10000; n++ {
		_, err = a.Acquire(t.Context(), ask(strings.Repeat("n", 900)+time.Duration(n).String(), "n", time.Minute))
	}
	if err == nil || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), "nothing was done") {
		t.Fatalf("after %d grants: %v", n, err)
	}
	before, err := a.Inspect(t.Context(), "first")
	if err != nil || !before.Held {
		t.Fatalf("%+v, %v", before, err)
	}
	if err := a.writer.conn.Exec(`PRAGMA max_page_count = 100000`); err != nil {
		t.Fatal(err)
	}
	if g := mustAcquire(t, a, ask("last", "n", time.Minute)); int(g.Token) != n+1 {
		t.Errorf("%d were granted, the next token is %d", n, g.Token)
	}
}

func TestAFileReplacedUnderARunningProcessIsNotUsed(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute))
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	for _, now := range []string{"removed", "replaced"} {
		if _, err := a.Renew(t.Context(), g); err == nil || !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), "removed or replaced") {
			t.Errorf("%s: renewed in a file that nobody else sees: %v", now, err)
		}
		if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileThatCannotBeWrittenSaysSo(t *testing.T) {
	path := written(t)
	readOnly(t, path)
	_, err := Open(context.Background(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("got %v", err)
	}
}
