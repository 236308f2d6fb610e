package tidy

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

const (
	longestFunction = 70  // lines: one screen
	longestFile     = 400 // lines; most have half of it
)

// fitsOnAScreen: a function that a reader sees whole is one that a reader
// understands.
func fitsOnAScreen(files []source) []string {
	var complaints []string
	for _, s := range files {
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
			if n > longestFunction {
				complaints = append(complaints, s.complain(fn.Pos(), "%s has %d lines; %d fit on a screen", fn.Name.Name, n, longestFunction))
			}
		}
	}
	return complaints
}

func shortFiles(files []source) []string {
	var complaints []string
	for _, s := range files {
		if n := s.fset.Position(s.ast.FileEnd).Line; n > longestFile {
			complaints = append(complaints, fmt.Sprintf("%s has %d lines: divide it by subject (at most %d)", s.path, n, longestFile))
		}
	}
	return complaints
}

func TestFunctionsFitOnAScreen(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, fitsOnAScreen) })
	body := func(lines int) string { return "func f() {" + strings.Repeat("\n", lines-1) + "}" }
	sees(t, fitsOnAScreen, []example{
		{"a.go", body(longestFunction), nil},
		{"a.go", body(longestFunction + 1), []string{"f has 71 lines"}},
		{"a_test.go", body(longestFunction + 1), []string{"f has 71 lines"}},
	})
}

func TestFilesHaveOneSubject(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, shortFiles) })
	sees(t, shortFiles, []example{
		{"a.go", strings.Repeat("\n", 200), nil},
		{"a.go", strings.Repeat("// x\n", longestFile+1), []string{"divide it"}},
	})
}
