package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// TestADiskThatFillsUpEndsANodeInWords: a small disk, on which somebody else
// writes, too.
func TestADiskThatFillsUpEndsANodeInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 1)
	small(t, w.path("small"), "320m") // a node wants 192 MiB to start
	c.args[0] = append(c.args[0], "--data", w.path("small/data"))
	c.up()
	fill(t, w.path("small/other"))
	p := c.running["a"]
	c.write(p)
	p.expect(69)
	for _, want := range []string{"little room is left", "there is no room for", "stays granted", "make room"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, p.out.String())
		}
	}
	again := w.run(c.args[0]...)
	if again.expect(69); !strings.Contains(again.out.String(), "make room") {
		t.Errorf("started again: %s", again.out.String())
	}
	if err := os.Remove(w.path("small/other")); err != nil {
		t.Fatal(err)
	}
	c.up()
	w.run("run", "k", "--authority", c.url(), "--", "true").expect(0)
	c.running["a"].signal(unix.SIGTERM)
	c.running["a"].expect(0)
}

// write writes to the node until it ends: a while it has room of its own.
func (c *nodes) write(p *process) {
	c.t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: c.clients, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	defer etcd.Close()
	junk := strings.Repeat("x", 1<<18)
	eventually(c.t, "the disk is full", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer cancel()
		_, _ = etcd.Put(ctx, "junk", junk) // the last one fails
		return p.ended()
	})
}

// small mounts a disk of a few megabytes, in memory.
func small(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("no right to mount, as root has in CI: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// fill writes a file until there is no room any more.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for junk := make([]byte, 4096); err == nil; {
		_, err = f.Write(junk)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// RLIMIT_FSIZE is a full disk that needs no disk of its own.
func TestAFullDiskEndsANodeInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 1)
	c.up()
	p := c.running["a"]
	if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
		t.Fatal(err)
	}
	w.start("run", "k", "--authority", c.url(), "-w", "1m", "--", "true")
	p.expect(69)
	for _, want := range []string{"there is no room for", "stays granted", "make room"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, p.out.String())
		}
	}
	if strings.Contains(p.out.String(), "goroutine") {
		t.Error("a stack is no error message")
	}
	c.up() // with room, it goes on
}
