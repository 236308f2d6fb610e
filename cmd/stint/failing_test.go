package main

import (
	"os"
	"strings"
	"testing"
)

// An authority that does not answer is told soon, whatever the length of the
// lease; -n does not make it quiet.
func TestAnAuthorityThatDoesNotAnswerIsToldSoon(t *testing.T) {
	w := newWorld(t)
	w.run("run", "k", "--", "true").expect(0)
	unlock := w.lockFile()
	a := w.start("run", "-n", "k", "--ttl", "1h", "--", "true")
	eventually(t, "it is told", func() bool { return strings.Contains(a.out.String(), "the authority has not answered yet") })
	if a.ended() {
		t.Error("stint ended before that")
	}
	unlock()
	a.expect(0)
}

// An authority that cannot work any more is not waited for, and its words are
// the user's.
func TestAnAuthorityThatWasRemovedIsToldAndNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "5s", "--", "sleep", "100")
	db := w.open()
	eventually(t, "k is held", func() bool { return w.inspect(db, "k").Held })
	b := w.start("run", "k", "--", "touch", "started")
	w.waiting(db, "k", 1)
	if err := os.Rename(w.path("l.db"), w.path("moved.db")); err != nil {
		t.Fatal(err)
	}
	b.expect(69)
	a.expect(76)
	for who, p := range map[string]*process{"who waits": b, "who holds": a} {
		if out := p.out.String(); !strings.Contains(out, "was removed or replaced") || strings.Contains(out, "gain") {
			t.Errorf("%s said:\n%s", who, out)
		}
	}
	if _, err := os.Stat(w.path("started")); err == nil {
		t.Error("the command was started")
	}
}

// That a lost lease could not be given back either would bury the loss.
func TestALostLeaseIsToldOnceAndPlainly(t *testing.T) {
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "3s", "--", "sleep", "100")
	db := w.open()
	eventually(t, "k is held", func() bool { return w.inspect(db, "k").Held })
	w.lockFile()
	a.expect(76)
	if out := a.out.String(); !strings.Contains(out, "the lease on k was lost") || strings.Contains(out, "could not be released") {
		t.Errorf("it said:\n%s", out)
	}
}
