package billing

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// story is what the three workers say, in short.
func story(unfenced bool) []Event {
	late := Event{Who: "A", Step: AfterCommit, Token: 1, Chunk: 2, Rows: 5000, Fence: 2, Err: "stale", Kind: KindStale}
	end := Event{Who: "A", Step: Ended, Token: 1, Err: "stale", Kind: KindStale}
	count := Count{Once: 50000}
	if unfenced {
		late = Event{Who: "A", Step: AfterCommit, Token: 1, Chunk: 2, Rows: 5000, Late: true}
		end = Event{Who: "A", Step: Retry, Token: 1, Err: "the lease is over", Kind: KindLost}
		count = Count{Once: 45000, Twice: 5000}
	}
	all := []Event{
		{Who: "A", Step: BeforeAcquire},
		{Who: "A", Step: AfterAcquire, Token: 1},
		{Who: "A", Step: AfterRaise, Token: 1, Fence: 1},
		{Who: "B", Step: Waiting, Note: "worker A holds the lease with token 1"},
		{Who: "B", Step: Waiting, Note: "worker A holds the lease with token 1"},
		{Who: "C", Step: Waiting, Note: "worker A holds the lease with token 1"},
		{Who: "A", Step: AfterRead, Token: 1, Note: "reads how far the job has come: 0 of 10 chunks"},
		{Who: "A", Step: Checked, Token: 1, Chunk: 1},
		{Who: "A", Step: AfterCommit, Token: 1, Chunk: 1, Rows: 5000},
		{Who: "A", Step: AfterRenew, Token: 1},
		{Who: "A", Step: Checked, Token: 1, Chunk: 2},
		{Who: "A", Step: Checked, Token: 1, Chunk: 2, Held: true},
		{Who: "A", Step: Frozen, Token: 1, Chunk: 2, Note: "for one and a half leases, 3s"},
		{Who: "B", Step: AfterAcquire, Token: 2},
		{Who: "B", Step: AfterRaise, Token: 2, Fence: 2, Note: ", finds it RUNNING by 1"},
		{Who: "B", Step: AfterCommit, Token: 2, Chunk: 2, Rows: 5000},
		{Who: "A", Step: Woken, Token: 1},
		late,
		{Who: "A", Step: AfterRenew, Token: 1, Err: "not held", Kind: KindOther},
		end,
		{Who: "B", Step: AfterFinish, Token: 2},
		{Who: "B", Step: AfterRelease, Token: 2},
		{Who: "B", Step: Ended, Token: 2},
		{Who: "C", Step: AfterAcquire, Token: 3},
		{Who: "C", Step: AfterRaise, Token: 3, Fence: 3, Note: ", finds it DONE"},
		{Who: "C", Step: AfterRelease, Token: 3},
		{Step: Verdict, Count: &count},
	}
	for i := range all {
		all[i].T = float64(i) * 0.25
	}
	return all
}

// The timeline is plain text with aligned lanes, in which a refused write and a
// late write that landed are marked.
func TestTimelineTellsTheStory(t *testing.T) {
	for name, unfenced := range map[string]bool{"fenced": false, "unfenced": true} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			l := &Timeline{W: &got}
			l.Head(&Show{TTL: 2 * time.Second, Dir: "/tmp/demo"}, "", false)
			for _, e := range story(unfenced) {
				l.Tell(e)
			}
			golden(t, filepath.Join("testdata", name+".txt"), got.Bytes())
		})
	}
}

// Colour is the only difference on a terminal.
func TestTimelineInColourSaysTheSame(t *testing.T) {
	tell := func(color bool) string {
		var b bytes.Buffer
		l := &Timeline{W: &b, Color: color}
		for _, e := range story(false) {
			l.Tell(e)
		}
		return b.String()
	}
	plain, colored := tell(false), tell(true)
	if plain == colored || strings.Contains(plain, "\x1b") {
		t.Error("colour shows where it should not, or not where it should")
	}
	if stripped := strings.NewReplacer("\x1b[1;31m", "", "\x1b[36m", "", "\x1b[0m", "").Replace(colored); stripped != plain {
		t.Errorf("on a terminal:\n%s\nelsewhere:\n%s", stripped, plain)
	}
}

// Every line of --json is one event, and the last one is the verdict.
func TestLinesAreJSON(t *testing.T) {
	var b bytes.Buffer
	Lines{&b}.tellAll(story(false))
	var last Event
	n := 0
	for d := json.NewDecoder(&b); d.More(); n++ {
		last = Event{}
		if err := d.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	if n != len(story(false)) || last.Step != Verdict || last.Count == nil || !last.Count.OK() {
		t.Errorf("%d lines, the last one %+v", n, last)
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got:\n%s\nwant (%s; -update rewrites it):\n%s", got, path, want)
	}
}
