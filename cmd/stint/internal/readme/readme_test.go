// Package readme keeps the Go code of the documents compiling, and runs what can
// be run: an example that does harm is worse than none.
package readme

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

const root = "../../../.."

// longest is what the README promises of its adoption examples, in lines.
const longest = 10

// given is what the examples take for granted: the reader's own work.
const given = `
func report(context.Context) error                 { return nil }
func bill(context.Context, *sql.Tx, string) error  { return nil }
func billChunk(context.Context, *sql.Tx, int) error { return nil }
`

// packages are those that the examples may use without saying so.
var packages = []string{
	"context", "database/sql", "errors", "fmt", "os", "sync", "time",
	"github.com/stint-dev/stint",
	"github.com/stint-dev/stint/authority",
	"github.com/stint-dev/stint/fence",
	"github.com/stint-dev/stint/fence/sqlfence",
}

func TestReadmeExamplesHaveTenLinesAndCompile(t *testing.T) {
	blocks := goBlocks(t, "README.md")
	if len(blocks) != 4 {
		t.Fatalf("README.md has %d blocks of Go, want the three ways to adopt stint, of which one has two", len(blocks))
	}
	for _, b := range blocks {
		if n := strings.Count(b, "\n"); n > longest {
			t.Errorf("an example of README.md has %d lines, at most %d are promised:\n%s", n, longest, b)
		}
	}
	compile(t, []string{strings.Join(blocks, "\n")}) // one calls another
}

func TestStartGuideCompiles(t *testing.T) {
	blocks := goBlocks(t, "docs/start.md")
	if len(blocks) == 0 {
		t.Fatal("docs/start.md has no Go code")
	}
	compile(t, blocks)
}

func TestCompileSeesAMistake(t *testing.T) {
	out, err := build(t, []string{"func f(c *stint.Client) { c.NoSuchMethod() }\n"})
	if err == nil || !strings.Contains(out, "NoSuchMethod") {
		t.Errorf("a mistake went unseen: %v\n%s", err, out)
	}
}

// goBlocks returns the fenced blocks of Go in a document.
func goBlocks(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "```go\n")[1:] {
		block, _, closed := strings.Cut(part, "```")
		if !closed {
			t.Fatalf("%s: a block is not closed", name)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

func compile(t *testing.T, blocks []string) {
	t.Helper()
	if out, err := build(t, blocks); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// build compiles each block as a package of this module that exists only in an
// overlay.
func build(t *testing.T, blocks []string) (string, error) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json")}
	if raceEnabled() {
		args = append(args, "-race") // what this test was built from is compiled already
	}
	for i, b := range blocks {
		file := filepath.Join(dir, fmt.Sprintf("block%d.go", i))
		write(t, file, []byte(frame("block", b+given)))
		pkg := fmt.Sprintf("block%d", i)
		overlay["Replace"][filepath.Join(here, pkg, "block.go")] = file
		args = append(args, "./"+pkg)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), text)
	out, err := exec.Command("go", args...).CombinedOutput()
	return string(out), err
}

// frame makes a file of a block: its own imports first, then those that it
// uses.
func frame(pkg, block string) string {
	var head, body strings.Builder
	fmt.Fprintf(&head, "package %s\n\n", pkg)
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, "import ") {
			head.WriteString(line)
		} else {
			body.WriteString(line)
		}
	}
	for _, p := range packages {
		if regexp.MustCompile(`\b` + filepath.Base(p) + `\.`).MatchString(body.String()) {
			fmt.Fprintf(&head, "import %q\n", p)
		}
	}
	return head.String() + body.String()
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// TestReadmeCronLineRuns runs the line of the README that cron would run, with
// a file and a command that are there.
func TestReadmeCronLineRuns(t *testing.T) {
	const line = "stint run nightly --authority sqlite:///var/lib/stint/leases.db --no-wait -- /usr/local/bin/report"
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), line+"\n") {
		t.Fatalf("README.md does not have the line %q", line)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir()) // as pwd prints it
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-buildvcs=false", "-o", filepath.Join(dir, "stint")}
	if raceEnabled() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../..")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	here := strings.NewReplacer("/var/lib/stint/leases.db", filepath.Join(dir, "leases.db"), "/usr/local/bin/report", "/bin/pwd").Replace(line)
	words := strings.Fields(here)
	cmd := exec.Command(filepath.Join(dir, words[0]), words[1:]...)
	cmd.Dir = dir
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", here, err, stderr.String())
	}
	if got := stdout.String(); got != dir+"\n" {
		t.Errorf("%s printed %q; want only what the command prints, %q", here, got, dir)
	}
}
