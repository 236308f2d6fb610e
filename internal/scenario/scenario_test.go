package scenario

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts into the scenario files")

// TestTranscripts holds what the machine does, line by line. Review a rewrite as
// a diff.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			got := Run(s)
			if *rewrite {
				if err := os.WriteFile(file, []byte(s.File(got)), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != s.Want {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", s.Title, got, s.Want)
			}
			if again := Run(s); again != got {
				t.Errorf("a second run gave another transcript:\n%s", again)
			}
		})
	}
}
