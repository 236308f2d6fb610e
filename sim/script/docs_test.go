package script

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheGrammarIsInTheDocumentation: each kind of line, of lock, of store and of
// actor is in the example of docs/simulator.md.
func TestTheGrammarIsInTheDocumentation(t *testing.T) {
	b, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(b), "\n## Scenario files\n")
	if !ok {
		t.Fatal("there is no such section")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	words := []string{"set", "lock", "store", "who", "link", "without", "at", "event", "figure", "also"}
	for _, kinds := range []map[string]params{lockKinds, storeKinds, actorKinds} {
		words = append(words, slices.Sorted(maps.Keys(kinds))...)
	}
	for _, word := range words {
		if !regexp.MustCompile(`\b` + word + `\b`).MatchString(part) {
			t.Errorf("the documentation of scenario files does not know %q", word)
		}
	}
}
