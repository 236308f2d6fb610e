package scenarios

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-dev/stint/sim/render"
	"github.com/stint-dev/stint/sim/script"
)

const (
	root     = "../.."
	simulate = root + "/docs/simulator.md"
)

func docs(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(simulate)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var inBackticks = regexp.MustCompile("`([^`]+)`")

// rows are the rows of the table under a heading, cell by cell.
func rows(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, part, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("there is no heading %q", heading)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	var all [][]string
	for _, line := range strings.Split(part, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		all = append(all, cells)
	}
	if len(all) < 2 {
		t.Fatalf("no table under %q", heading)
	}
	return all[1:]
}

// testNames are all tests of the project.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	found := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range found.FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestEachRuleOfTheProtocolHasARow: 32 rules, each with a scenario, or with the
// reason why there is none and the test that holds it. What is named exists.
func TestEachRuleOfTheProtocolHasARow(t *testing.T) {
	tests := testNames(t)
	all := rows(t, docs(t), "The protocol's rules, and where each is shown")
	if len(all) != 32 {
		t.Errorf("%d rows for 32 rules", len(all))
	}
	for i, row := range all {
		if len(row) != 3 || row[0] != strconv.Itoa(i+1) || row[1] == "" {
			t.Errorf("row %d: %q", i+1, row)
			continue
		}
		shown := 0
		for _, m := range inBackticks.FindAllStringSubmatch(row[2], -1) {
			name := m[1]
			transcript, own := strings.CutPrefix(name, "TestTranscripts/")
			_, err := os.Stat(filepath.Join(root, "internal/scenario/testdata", transcript+".txt"))
			switch {
			case slices.Contains(Names(), name), own && err == nil:
				shown++
			case tests[name]:
			default:
				t.Errorf("rule %d: there is no scenario and no test %s", i+1, name)
			}
		}
		if shown == 0 && !strings.HasPrefix(row[2], "no scenario: ") {
			t.Errorf("rule %d: neither a scenario nor a reason: %s", i+1, row[2])
		}
	}
}

// TestEveryScenarioIsInTheDocumentation: what the program lists, the
// documentation knows.
func TestEveryScenarioIsInTheDocumentation(t *testing.T) {
	text := docs(t)
	for _, name := range Names() {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/simulator.md does not say what %s shows", name)
		}
	}
}

// printed are the keys of the JSON lines of every scenario, the values of mark,
// and the figures.
func printed(t *testing.T) (keys, marks, figures map[string]bool) {
	t.Helper()
	keys, marks, figures = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range Names() {
		s, err := Load(name, script.Change{})
		if err != nil {
			t.Fatal(err)
		}
		r, variants := run(t, s)
		for _, one := range append(variants, r) {
			lines := bytes.Split(bytes.TrimSpace(render.JSON(one)), []byte("\n"))
			for i, line := range lines {
				var fields map[string]any
				if err := json.Unmarshal(line, &fields); err != nil {
					t.Fatalf("%s: %v in %s", name, err, line)
				}
				if i == len(lines)-1 {
					for f := range fields["figures"].(map[string]any) {
						figures[f] = true
					}
					delete(fields, "figures")
					delete(fields, "verdict")
				}
				for k := range fields {
					keys[k] = true
				}
				if m, ok := fields["mark"].(string); ok {
					marks[m] = true
				}
			}
		}
	}
	return keys, marks, figures
}

func same(t *testing.T, what string, printed, documented map[string]bool) {
	t.Helper()
	for name := range printed {
		if !documented[name] {
			t.Errorf("%s %s is printed, and not documented", what, name)
		}
	}
	for name := range documented {
		if !printed[name] {
			t.Errorf("%s %s is documented, and no scenario prints it", what, name)
		}
	}
}

// TestEveryKeyOfTheJSONLinesIsDocumented: what the scenarios print and what the
// documentation lists are the same, key by key, mark by mark, figure by figure.
func TestEveryKeyOfTheJSONLinesIsDocumented(t *testing.T) {
	keys, marks, figures := printed(t)
	known, knownMarks, knownFigures := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, row := range rows(t, docs(t), "JSON lines") {
		for _, m := range inBackticks.FindAllStringSubmatch(row[0], -1) {
			known[m[1]] = true
			if m[1] != "mark" {
				continue
			}
			for _, mark := range inBackticks.FindAllStringSubmatch(row[1], -1) {
				knownMarks[mark[1]] = true
			}
		}
	}
	for _, row := range rows(t, docs(t), "Figures") {
		for _, m := range inBackticks.FindAllStringSubmatch(row[0], -1) {
			knownFigures[m[1]] = true
		}
	}
	same(t, "the key", keys, known)
	same(t, "the mark", marks, knownMarks)
	same(t, "the figure", figures, knownFigures)
}
