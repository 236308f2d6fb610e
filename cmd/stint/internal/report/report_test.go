package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

func terminal(w *bytes.Buffer, width int) *Printer {
	return &Printer{out: stream{w: w}, width: func() int { return width }}
}

func TestALineTakesTheLiveLineAway(t *testing.T) {
	var b bytes.Buffer
	p := terminal(&b, 20)
	p.Live("waiting for somebody with a long name")
	p.Line("done")
	want := "\rstint: waiting f..." + clearRight + "\r" + clearRight + "stint: done\n"
	if b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

func TestAPipeGetsNoLiveLine(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{out: stream{w: &b}}
	p.Live("waiting")
	p.Done()
	if b.Len() != 0 {
		t.Errorf("%q", b.String())
	}
}

func TestQuietStillTellsErrors(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{out: stream{w: &b}, Quiet: true}
	p.Line("hello")
	p.Error(&Problem{What: "it broke", Err: errors.New("cause"), Data: "nothing was lost", Do: "try again"})
	if want := "stint: it broke: cause\nstint: nothing was lost\nstint: try again\n"; b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

// Drivers indent the second line of an error by a tab.
func TestATabIsASpace(t *testing.T) {
	var b bytes.Buffer
	(&Printer{out: stream{w: &b}}).Line("no server:\n\tat one\tor two")
	if want := "stint: no server:\nstint:  at one or two\n"; b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

// A holder's description comes from another machine.
func TestAHolderCannotMoveTheCursor(t *testing.T) {
	s := authority.State{Name: "k", Held: true, Holder: "\x1b[2Jevil\nforged", Grant: fence.Grant{Token: 1, Nonce: "n"}}
	var b bytes.Buffer
	p := terminal(&b, 200)
	p.Line("held by %s", s.Holder)
	if err := Table(&b, []authority.State{s}); err != nil {
		t.Fatal(err)
	}
	if err := Details(&b, s, true); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("an escape came through: %q", b.String())
	}
	for line := range strings.Lines(b.String()) {
		// Line breaks become lines of stint's own, marked as such; in a listing
		// they do not break the row.
		if strings.HasPrefix(line, "forged") {
			t.Errorf("an unmarked line: %q", line)
		}
	}
}

func TestWhatTheAuthorityForgetsIsNotCalledNeverHeld(t *testing.T) {
	for remembers, want := range map[bool]string{true: "free, never held", false: "free"} {
		var b bytes.Buffer
		if err := Details(&b, authority.State{Name: "k"}, remembers); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "state    "+want+"\n") {
			t.Errorf("remembers %t: %q", remembers, b.String())
		}
	}
}

func TestOddNamesAreQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"billing": "billing", "/a": "/a", "a//b": "a//b", "a%2Fb": "a%2Fb", "#x": "#x", "zürich": "zürich",
		" a ": `" a "`, "a b": `"a b"`, `a"b`: `"a\"b"`, "a\u200bb": `"a\u200bb"`,
	} {
		if got := Name(in); got != want {
			t.Errorf("%q: %s; want %s", in, got, want)
		}
	}
}

func TestTimesArePlain(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.Local)
	if got := Since(now.Add(-time.Hour), now); got != "11:00:00" {
		t.Errorf("today: %s", got)
	}
	if got := Since(now.AddDate(0, 0, -1), now); got != "2026-05-03 12:00:00" {
		t.Errorf("yesterday: %s", got)
	}
	for d, want := range map[time.Duration]string{
		12345678 * time.Microsecond: "12s", 1234567 * time.Microsecond: "1.2s", 123456 * time.Microsecond: "123ms",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v: %s; want %s", d, got, want)
		}
	}
}
