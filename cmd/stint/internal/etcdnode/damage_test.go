package etcdnode

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestADamagedFolderSaysSoAndIsNotChanged(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	n := start(t, s)
	for range 50 {
		put(t, n.Client(), "k", strings.Repeat("x", 1000))
	}
	stop(t, n)
	logs, err := filepath.Glob(filepath.Join(walDir(s.Data), "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	db := dbFile(s.Data)
	middle := func(text []byte) []byte {
		for i := 20_000; i < 40_000 && i < len(text); i++ {
			text[i] ^= 0xff
		}
		return text
	}
	for name, damage := range map[string]struct {
		file string
		do   func([]byte) []byte
	}{
		"the database is empty":          {db, func([]byte) []byte { return nil }},
		"the database is cut":            {db, func(b []byte) []byte { return b[:4*os.Getpagesize()] }},
		"the database is something else": {db, func(b []byte) []byte { return []byte(strings.Repeat("not a database ", len(b)/15)) }},
		"the database's pages are bad":   {db, middle},
		"the log is something else":      {logs[0], func(b []byte) []byte { return []byte(strings.Repeat("not a log ", 1000)) }},
		"the log is bad in the middle":   {logs[0], middle},
		"the mark is something else":     {markFile(s.Data), func([]byte) []byte { return []byte("{") }},
	} {
		t.Run(name, func(t *testing.T) {
			good, err := os.ReadFile(damage.file)
			if err != nil {
				t.Fatal(err)
			}
			bad := damage.do(append([]byte(nil), good...))
			write(t, damage.file, bad)
			defer write(t, damage.file, good)
			mustRefuse(t, s, ErrDamaged, "is damaged")
			if now, err := os.ReadFile(damage.file); err != nil || string(now) != string(bad) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
	stop(t, start(t, s)) // with the good ones
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderOrAnAddressInUseIsNamed(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	n := start(t, s)
	defer stop(t, n)
	again := s
	again.Listen = freePort(t)
	mustRefuse(t, again, ErrInUse, "is in use by the process")
	other := fast(t, filepath.Join(t.TempDir(), "other"))
	other.Listen = s.Listen
	mustRefuse(t, other, ErrPortTaken, "another process listens")
	// And what failed has left nothing behind that is in the way.
	other.Listen = freePort(t)
	stop(t, start(t, other))
}

func TestAFolderThatCannotBeIsASettingAndNoFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	for _, dir := range []string{filepath.Join(file, "data"), file, filepath.Join("/", strings.Repeat("x", 300))} {
		s := fast(t, dir)
		mustRefuse(t, s, ErrSettings, "there can be no data folder")
	}
}

func TestARemovedFolderIsToldAndCanStillBeSaved(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	told, log := io.Pipe()
	s.Log = slog.New(slog.NewTextHandler(log, nil))
	seen := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(told); lines.Scan(); {
			if strings.Contains(lines.Text(), "folder was removed") {
				seen <- true
			}
		}
	}()
	defer log.Close()
	n := start(t, s)
	put(t, n.Client(), "mine", "kept")
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen:
	case <-time.After(limit):
		t.Error("nothing was said")
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := Snapshot(within(t), n.Client(), file); err != nil {
		t.Fatal(err)
	}
	stop(t, n)
	mustRefuse(t, s, ErrRepeats, "is empty, but")
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	if _, err := (Restore{Snapshot: file, Node: s}).Run(); err != nil {
		t.Fatal(err)
	}
	n = start(t, s)
	defer stop(t, n)
	if get(t, n.Client(), "mine") != "kept" {
		t.Error("it was not saved")
	}
}

func TestOtherNodesThanThoseOfTheDataAreRefused(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	n := start(t, s)
	for range 20 {
		put(t, n.Client(), "k", "v")
	}
	stop(t, n)
	s.Name, s.Peers = "a", []Peer{{"a", "127.0.0.1:1"}, {"b", "127.0.0.1:2"}, {"c", "127.0.0.1:3"}}
	mustRefuse(t, s, ErrSettings, "is of the nodes at "+lonely)
}

func TestAFullQuotaIsToldAndRoomIsFoundAgain(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	s.Quota = 16 << 20
	n := start(t, s)
	defer stop(t, n)
	c := dial(t, s.Listen)
	lease, err := c.Grant(within(t), 3600)
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1<<20)
	for {
		_, err := c.Put(within(t), "big", big)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// It refuses at once; the held lease can be renewed all the same.
	if _, err := c.KeepAliveOnce(within(t), lease.ID); err != nil {
		t.Errorf("renewing with a full quota: %v", err)
	}
	// What filled it were old revisions: the node drops them by itself.
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		_, err := c.Put(within(t), "small", "x", clientv3.WithLease(lease.ID))
		if err == nil {
			return
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestOldRevisionsAreForgotten(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	s.old = 100
	n := start(t, s)
	defer stop(t, n)
	for range 150 {
		put(t, n.Client(), "k", "v")
	}
	for end := time.Now().Add(limit); n.server().KV().FirstRev() < 100; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the first revision is %d of %d", n.server().KV().FirstRev(), n.Revision())
		}
	}
}
