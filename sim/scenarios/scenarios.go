// Package scenarios holds the written scenarios, as files that a person can
// read. Each shows one thing; its golden transcript stands below its text.
package scenarios

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/sim/script"
)

//go:embed *.txt
var files embed.FS

// Names lists the scenarios: the story first, then by name.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is compiled in
	}
	var names []string
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".txt"); name != "story" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return append([]string{"story"}, names...)
}

// Text is a scenario's file.
func Text(name string) (string, error) {
	text, err := files.ReadFile(name + ".txt")
	if err != nil {
		return "", fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return string(text), nil
}

// Load reads a scenario, with a caller's changes.
func Load(name string, change script.Change) (*script.Script, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return script.Parse(name, text, change)
}
