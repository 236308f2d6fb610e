package main

import (
	"os"
	"syscall"
	"testing"
)

// A reader that stalls (a pager, a terminal that was stopped with Ctrl-S) holds
// up whoever writes to standard error. It must not hold up the end of the
// command.
func TestAStalledReaderOfItsMessagesDoesNotKeepTheCommandAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a := w.startTo(wr, "run", "k", "--ttl", "10s", "--margin", "5s", "--renew", "2s", "--", "sh", "-c",
		`trap "" TERM; yes >&2 & echo $! >p1; exec witness w`)
	wr.Close()
	w.started("w") // by then, or soon after, the pipe is full
	p1 := w.pid("p1")
	db := w.open()
	unlock := w.lockFile()
	eventually(t, "every process is gone", func() bool { return syscall.Kill(p1, 0) != nil })
	if s := w.inspect(db, "k"); !s.Held || s.Grant.Token != 1 || s.Left <= 0 {
		t.Errorf("when its processes were gone, the authority had let go: %+v", s)
	}
	unlock()
	r.Close() // the reader goes away
	a.expect(76)
	w.run("run", "k", "--", "witness", "w", "10ms").expect(0)
	w.stamps("w")
}
