package play

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/sim/script"
)

// FuzzRun: whatever the parser accepts can be run. Long runs are cut short.
func FuzzRun(f *testing.F) {
	files, err := filepath.Glob("../scenarios/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		s, err := script.Parse("fuzz", text, script.Change{})
		if err != nil || s.Duration("until") > 2*time.Minute || s.Int("candidates") > 100 {
			return
		}
		for _, a := range s.Actors {
			if a.Int("count", 1) > 100 { // a crowd is only slower
				return
			}
		}
		if s.Store.Int("chunks", 1)*s.Store.Int("rows", 1) > 100_000 {
			return
		}
		Run(s, Options{Seed: seed})
	})
}
