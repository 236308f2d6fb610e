package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestTheJSONOfTheSimulatorIsDocumented: what the commands beside sim run write
// has a row each in docs/simulator.md, with every key.
func TestTheJSONOfTheSimulatorIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(b), "\n## JSON of the other commands\n")
	if !ok {
		t.Fatal("there is no such section")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	for command, types := range map[string][]any{
		"list":    {simulated{}},
		"explore": {explored{}, brokeAt{}, brokePromise{}},
		"check":   {checked{}, checkBroke{}},
		"loss":    {measured{}},
	} {
		_, row, ok := strings.Cut(part, "\n| `"+command+"` | ")
		if !ok {
			t.Errorf("%s has no row", command)
			continue
		}
		row, _, _ = strings.Cut(row, "\n")
		for _, v := range types {
			of := reflect.TypeOf(v)
			for i := range of.NumField() {
				key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				if key != "" && !strings.Contains(row, "`"+key+"`") {
					t.Errorf("%s: the key %s is not documented", command, key)
				}
			}
		}
	}
}
