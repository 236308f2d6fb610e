package sqlitelease

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// The holder of a deleted file may be at work for one length more, and a file
// that is made anew does not know it.
func TestADeletedFileGrantsNothingUntilABump(t *testing.T) {
	path := newPath(t)
	a := openAt(t, path, Options{})
	g := mustAcquire(t, a, ask("x", "n", time.Minute))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		refused(t, path, "removed after 1 tokens", "end its holders", "stint bump", "Nothing was changed")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the refusal made the file")
	}
	if _, err := a.Renew(t.Context(), g); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("renewed in a deleted file: %v", err)
	}
}

func TestTokensGrowOverADeletedFile(t *testing.T) {
	path := written(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if before, after, err := Bump(t.Context(), path, 10); err != nil || before != 3 || after != 13 {
		t.Fatalf("bumped from %d to %d, %v", before, after, err)
	}
	a := openAt(t, path, Options{})
	if g := mustAcquire(t, a, ask("a", "n", time.Minute)); g.Token != 14 {
		t.Errorf("token %d after thirteen", g.Token)
	}
}

func TestADeletedFileWithAnUnreadableMarkIsNotMadeAnew(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(markPath(path), []byte("many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "how many tokens", "nothing was changed")
	if _, _, err := Bump(t.Context(), path, 1); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("a bump counted from zero: %v", err)
	}
}

// SQLite would replay the old -wal into a new file.
func TestWhatADeletedFileLeftIsNotReplayed(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		path := newPath(t)
		if err := os.WriteFile(path+suffix, []byte("of another file"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, path, suffix+" is there without it", "Nothing was changed")
		if err := os.WriteFile(markPath(path), []byte("7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Bump(t.Context(), path, 1); !errors.Is(err, authority.ErrBroken) {
			t.Errorf("%s: a bump made the file: %v", suffix, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the refusal made the file", suffix)
		}
	}
}

// Who waits for an authority that does not come back by itself would wait for
// ever.
func TestAnAuthorityThatCannotWorkSaysSoDefinitely(t *testing.T) {
	other := func(sql string) func(*Authority) error {
		return func(a *Authority) error {
			c, err := openConn(t.Context(), a.path)
			if err == nil {
				err = c.Exec(sql)
				c.close()
			}
			return err
		}
	}
	for words, what := range map[string]func(*Authority) error{
		"removed or replaced": func(a *Authority) error { return os.Remove(a.path) },
		"its -wal or -shm":    func(a *Authority) error { return os.Remove(a.path + "-wal") },
		"or -shm, was":        func(a *Authority) error { return os.Remove(a.path + "-shm") },
		"newer stint":         other(`PRAGMA user_version = 2`),
		"was set back":        func(a *Authority) error { a.mark.raise(100); return nil },
		"used up":             other(`UPDATE authority SET counter = 9007199254740991`),
	} {
		a := openAt(t, newPath(t), Options{})
		mustAcquire(t, a, ask("x", "n", time.Minute))
		if err := what(a); err != nil {
			t.Fatal(words, err)
		}
		r := ask("y", "n", time.Minute)
		r.Waiter = "w"
		if _, err := a.Acquire(t.Context(), r); !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v", words, err)
		}
	}
	path := written(t)
	patch(t, path, 100, []byte(strings.Repeat("\xAA", 400)))
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("damaged: got %v", err)
	}
}
