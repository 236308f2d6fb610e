package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
)

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// lanes runs a scenario on a terminal of a width, and returns what it shows, line
// by line, without the colours; coloured says whether there were any.
func lanes(t *testing.T, width uint16, env string) (lines []string, coloured bool) {
	t.Helper()
	w := newWorld(t)
	// The size is set before the program begins, so that it cannot look too early.
	m := w.startOnTerminal("sh", "-c", "read go; "+env+" exec stint sim run story --without fence")
	if err := pty.Setsize(m.pty, &pty.Winsize{Rows: 24, Cols: width}); err != nil {
		t.Fatal(err)
	}
	m.types("\n")
	m.expect(0)
	text := strings.ReplaceAll(m.out.String(), "\r\n", "\n")
	plain := colours.ReplaceAllString(text, "")
	return strings.Split(plain, "\n"), plain != text
}

func has(t *testing.T, lines []string, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for _, line := range lines {
		if re.MatchString(line) {
			return
		}
	}
	t.Errorf("no line like %q in:\n%s", pattern, strings.Join(lines, "\n"))
}

// On a terminal each machine has a lane beside true time, and what is wrong is
// marked in it.
func TestOnATerminalEachMachineHasALane(t *testing.T) {
	lines, coloured := lanes(t, 160, "LC_ALL=C.UTF-8 NO_COLOR=")
	has(t, lines, `^    time       A   B   C   swe n1  n2`)
	has(t, lines, `^       0  \[1\]  ●   │   │   │   ┃   │    A       holds billing with token 7; stop time 8$`)
	has(t, lines, `^    13\.5  \[8\]  ┆   ●   │   │   ┃   │    B       holds billing with token 12; stop time 21\.5$`)
	has(t, lines, `^   19\.05       ‼   ┃   │   │   ┃   │    A       writes chunk 2 with 7: accepted, CHARGED 2 TIMES NOW  \[TWICE\]$`)
	has(t, lines, `^   21\.95       ●       │   │   ┃   │    A       checks its stop time 11: it is over$`)
	has(t, lines, `^Verdict: HARM: 5000 invoices were charged twice\.$`)
	if !coloured {
		t.Error("nothing is coloured")
	}
}

// A narrow terminal without colours and without a UTF-8 locale loses nothing.
func TestLanesFitANarrowTerminal(t *testing.T) {
	lines, coloured := lanes(t, 70, "LC_ALL=C NO_COLOR=1")
	if coloured {
		t.Error("NO_COLOR is set, and something is coloured")
	}
	inLanes := false
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "    time "):
			inLanes = true
		case line == "":
			inLanes = false
		}
		if n := len([]rune(line)); inLanes && n > 70 {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.ContainsAny(line, "│┃┆●✗‼") {
			t.Errorf("not plain ASCII: %s", line)
		}
	}
	has(t, lines, `^       0  \[1\]  \*   \|   \|   \|   H   \|    A `)
}

// A found world is not lost when somebody cannot wait until it is small: on real
// Raft that takes seconds. What is left of it by then is told, saved, and plays.
func TestCtrlCWhileAWorldIsShrunkKeepsTheFinding(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("stint", "sim", "explore", "--raft", "--without", "margin", "--runs", "1", "--seed", "470")
	m.shows(`shrinking seed 470: 16 of 16 faults and events are left, 0 tries `)
	m.types("\x03")
	m.expect(1)
	text := strings.ReplaceAll(m.out.String(), "\r\n", "\n")
	_, told, _ := strings.Cut(text, "Seed 470, after ")
	lines := strings.Split(told, "\n")
	has(t, lines, `^BROKEN: no two holders are inside their stop times`)
	has(t, lines, `^The shrinking was stopped\. To the end: stint sim explore --runs 1 --seed 470 --raft --without margin$`)
	has(t, lines, `^Again: stint sim run found-no-margin-470-`)
	_, command, _ := strings.Cut(told, "\nAgain: stint ")
	command, _, _ = strings.Cut(command, "\n")
	again := w.start(strings.Fields(command)...)
	again.expect(1)
	has(t, strings.Split(again.out.String(), "\n"), `^BROKEN: no two holders are inside their stop times`)
}

// Whoever stops a search is told how to do the rest of it, not some other number.
func TestCtrlCTellsHowToGoOnWithTheRest(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("stint", "sim", "explore", "--runs", "50000000", "--seed", "7", "--workers", "1")
	m.shows(` of 50000000 worlds, `)
	m.types("\x03")
	m.expect(0)
	said := regexp.MustCompile(`No promise was broken: (\d+) of 50000000 worlds(?s:.*)To go on: stint sim explore --runs (\d+) --seed (\d+)\r?\n`).FindStringSubmatch(m.out.String())
	if said == nil {
		t.Fatalf("it does not say how to go on:\n%s", m.out.String())
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(said[i+1])
	}
	if n[0] < 1 || n[0]+n[1] != 50_000_000 || n[2] != 7+n[0] {
		t.Errorf("%d worlds are done, and it goes on with %d from seed %d", n[0], n[1], n[2])
	}
}

// What takes long says how far it is, on a terminal.
func TestLongMeasurementsShowHowFarTheyAre(t *testing.T) {
	w := newWorld(t)
	m := w.startOnTerminal("stint", "sim", "loss", "--runs", "10")
	m.shows(`every rule on: 10 of 10 worlds `)
	m.shows(`without beat: 10 of 10 worlds `)
	m.expect(0)
}
