package play

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// rough is a small world with everything in it that is random: elections, delays,
// losses, disks.
const rough = `# A rough world.
set until 20s
set jitter 40ms
set delay 5ms
set loss 20000
lock raft nodes=3 fsync=2ms
store table chunks=6 rows=10
who A worker raise-after=0.3 pace=0.8 again=1s rate=200
who B worker raise-after=0.1 pace=0.5 again=1s wall=-2s rate=-300
who sweeper sweeper every=10s
link A n1 reorder=100000 twice=50000
at 0  A start
at 1  sweeper start
at 2  B start
at 3  A pause 12s
at 4  n1 crash
at 9  n1 restart
at 12 net cut B n2
at 15 net heal
`

func bytesOf(t *testing.T, seed uint64) string {
	t.Helper()
	s, err := script.Parse("rough", rough, script.Change{})
	if err != nil {
		t.Fatal(err)
	}
	r := Run(s, Options{Seed: seed, Detail: true})
	var b []byte
	for _, e := range r.Events {
		b = append(e.AppendJSON(b), '\n')
	}
	for _, f := range r.Facts {
		b = append(b, f.Name+" "+f.Text+"\n"...)
	}
	return string(b)
}

// TestTheSameSeedGivesTheSameBytes: over any number of processors. The test runs
// with and without the race detector, and so in two builds.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	first := make([]string, 200)
	different := map[string]bool{}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range first {
		first[seed] = bytesOf(t, uint64(seed))
		different[first[seed]] = true
	}
	runtime.GOMAXPROCS(2)
	for seed, want := range first {
		if got := bytesOf(t, uint64(seed)); got != want {
			t.Fatalf("seed %d: two runs differ, from byte %d on", seed, common(got, want))
		}
	}
	if len(different) < len(first) {
		t.Errorf("%d seeds gave %d different runs", len(first), len(different))
	}
}

func common(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestARoughWorldHarmsNothing(t *testing.T) {
	s, err := script.Parse("rough", rough, script.Change{Set: []script.Value{{Name: "until", Text: "60s"}}})
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for seed := range uint64(20) {
		r := Run(s, Options{Seed: seed})
		if r.Facts.Int("twice") > 0 || r.Facts.Get("overlap") != "0" || r.Facts.Get("tokens") != "grow" || r.Facts.Int("swept-held") > 0 {
			t.Errorf("seed %d: %v", seed, r.Facts)
		}
		if r.Facts.Get("done") == "1/1" {
			done++
		}
	}
	if done < 15 {
		t.Errorf("the job is done in %d of 20 worlds only", done)
	}
}

func TestBeliefsEndWhereTheyEnd(t *testing.T) {
	ev := func(t int, who, what string, stop int) world.Event {
		return world.Event{T: sec(t), Who: who, What: what, Name: "job", Token: uint64(t + 1), Stop: sec(stop)}
	}
	pause := ev(4, "A", "pauses", 0)
	pause.Until = sec(19)
	for _, c := range []struct {
		what         string
		events       []world.Event
		overlap, gap int
	}{
		{"a pause ends at the stop time", []world.Event{ev(0, "A", "granted", 8), ev(3, "A", "kept", 11), pause, ev(13, "B", "granted", 21), ev(19, "A", "ended", 0)}, 0, 2},
		{"a late end counts, if nobody slept", []world.Event{ev(0, "A", "granted", 8), ev(7, "B", "granted", 15), ev(10, "A", "ended", 0)}, 3, 0},
		{"a crash ends it at once", []world.Event{ev(0, "A", "granted", 8), ev(2, "A", "crashes", 0), ev(5, "B", "granted", 13)}, 0, 3},
		{"one that never ends goes by its stop time", []world.Event{ev(0, "A", "granted", 8), ev(6, "B", "granted", 14)}, 2, 0},
	} {
		overlap, gap, _ := beliefs(c.events).overlap()
		if overlap != sec(c.overlap) || gap != sec(c.gap) {
			t.Errorf("%s: overlap %v, gap %v", c.what, overlap, gap)
		}
	}
}

func TestAMissingFigureIsSaid(t *testing.T) {
	text := strings.Replace(rough, "at 0  A start", "event 3 1 A granted token=99\nfigure twice 7\nat 0 A start", 1)
	s, err := script.Parse("rough", text, script.Change{})
	if err != nil {
		t.Fatal(err)
	}
	missing := strings.Join(Run(s, Options{}).Missing(), "\n")
	if !strings.Contains(missing, "event 3: at 1 A granted token=99") || !strings.Contains(missing, `figure twice is "0", it has to be "7"`) {
		t.Errorf("missing: %s", missing)
	}
}

func sec(n int) time.Duration { return time.Duration(n) * time.Second }
