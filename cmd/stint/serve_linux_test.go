package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
	w.start("run", "k", "--authority", c.url(), "--ttl", "2s", "-w", "1s", "--", "true")
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
