package plant

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	all  = flag.Bool("all", false, "plant every bug")
	only = flag.String("only", "", "plant the bugs whose names contain this")
)

// few are planted in the ordinary run.
var few = []string{"release whatever is there", "sweep what is held"}

// repository is the root of the module that holds internal/protocol.
func repository(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/stint-dev/stint").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// patched is the file with the bug.
func (p plant) patched(root string) (path, text string, err error) {
	path = filepath.Join(root, "internal", "protocol", p.file)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(b), p.old); n != 1 {
		return "", "", fmt.Errorf("%s has %d times what is to be replaced: %q", p.file, n, p.old)
	}
	return path, strings.Replace(string(b), p.old, p.new, 1), nil
}

// hunt builds this test with the bug, and says what has caught it.
func (p plant) hunt(t *testing.T) (by string) {
	t.Helper()
	root, dir := repository(t), t.TempDir()
	path, text, err := p.patched(root)
	if err != nil {
		t.Fatal(err)
	}
	bad, overlay := filepath.Join(dir, p.file), filepath.Join(dir, "overlay.json")
	replaces, err := json.Marshal(map[string]any{"Replace": map[string]string{path: bad}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{bad: []byte(text), overlay: replaces} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bin, note := filepath.Join(dir, "hunt.test"), filepath.Join(dir, "verdict")
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %s", out)
	}
	out, err := exec.Command(bin, "-test.run=^TestHunt$", "-runs="+fmt.Sprint(*runs), "-first="+fmt.Sprint(*first), "-patience="+patience.String(), "-verdict="+note).CombinedOutput()
	if err == nil {
		return transcripts(root, overlay)
	}
	if by, _ := os.ReadFile(note); len(by) > 0 {
		return strings.ReplaceAll(strings.TrimSpace(string(by)), "\n", "; ")
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return "it ends: " + first
}

// transcripts runs the machines' own scenarios, whose transcripts are kept line by
// line, with the bug, and says which of them has caught it.
func transcripts(root, overlay string) (by string) {
	for _, args := range [][]string{
		{"./internal/scenario"},
		{"./internal/protocol", "-rapid.nofailfile"}, // which would lie in the work tree
	} {
		test := exec.Command("go", append([]string{"test", "-vet=off", "-overlay", overlay}, args...)...)
		test.Dir = root
		if out, err := test.CombinedOutput(); err != nil {
			return failed(string(out))
		}
	}
	return ""
}

func failed(out string) string {
	var names []string
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "it ends: " + out
	}
	return "the machines' own scenarios: " + strings.Join(names[:min(len(names), 3)], ", ")
}

// TestEveryBugCanBePlanted: the code that each one replaces is there. Who
// changes that code changes the bug with it.
func TestEveryBugCanBePlanted(t *testing.T) {
	root := repository(t)
	names := map[string]bool{}
	for _, p := range plants {
		if _, _, err := p.patched(root); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		if names[p.name] {
			t.Errorf("two bugs are called %q", p.name)
		}
		names[p.name] = true
	}
	if len(plants) < 30 {
		t.Errorf("only %d bugs", len(plants))
	}
}

// TestPlantedBugsAreCaught plants a few bugs, or with -all every one.
func TestPlantedBugsAreCaught(t *testing.T) {
	survivors, tried := 0, 0
	for _, p := range plants {
		if !p.wanted() {
			continue
		}
		tried++
		by := p.hunt(t)
		if by == "" {
			survivors++
			t.Errorf("SURVIVES: %s", p.name)
			continue
		}
		t.Logf("%-46s %s", p.name, by)
	}
	t.Logf("%d of %d planted bugs were caught", tried-survivors, tried)
	if tried == 0 {
		t.Error("no bug was planted")
	}
}

func (p plant) wanted() bool {
	if *only != "" {
		return strings.Contains(p.name, *only)
	}
	if *all {
		return true
	}
	for _, name := range few {
		if name == p.name {
			return true
		}
	}
	return false
}
