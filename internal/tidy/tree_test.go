package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stint-dev/stint"

// root is the checkout, seen from this package's folder.
const root = "../.."

// source is one Go file of the project.
type source struct {
	path string // from the root, with slashes: "fence/token.go"
	fset *token.FileSet
	ast  *ast.File
}

// pkg is the folder of the file; "." is package stint.
func (s source) pkg() string { return path.Dir(s.path) }

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// isSupport tells the packages that exist for tests, ours and our users'. No
// production package imports them.
func (s source) isSupport() bool { return isSupport(s.pkg()) }

func isSupport(pkg string) bool {
	for _, part := range strings.Split(pkg, "/") {
		if strings.HasSuffix(part, "test") || part == "tidy" {
			return true
		}
	}
	return pkg == "authority/authoritytest/faulty"
}

func (s source) complain(at token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(at).Line, fmt.Sprintf(format, args...))
}

// imports calls f for each import.
func (s source) imports(f func(at token.Pos, what string)) {
	for _, imp := range s.ast.Imports {
		what, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			panic(err) // the parser let it through
		}
		f(imp.Pos(), what)
	}
}

// named returns the name under which the file knows an import, or "".
func (s source) named(importPath string) string {
	for _, imp := range s.ast.Imports {
		if p, _ := strconv.Unquote(imp.Path.Value); p == importPath {
			if imp.Name != nil {
				return imp.Name.Name
			}
			return path.Base(p)
		}
	}
	return ""
}

func parse(fset *token.FileSet, name, text string) (source, error) {
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{path: name, fset: fset, ast: file}, err
}

// tree parses every Go file of every module.
func tree(t *testing.T) []source {
	t.Helper()
	fset := token.NewFileSet()
	var all []source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		s, err := parse(fset, name, read(t, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	})
	if len(all) < 10 {
		t.Fatalf("only %d Go files were found from %s", len(all), root)
	}
	return all
}

// walk calls f for every file of the checkout but those of git, of make and of
// an editor.
func walk(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() && (rel == ".git" || rel == "bin" || strings.HasPrefix(d.Name(), ".") && rel != "." && rel != ".ci") {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			f(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rule finds what is wrong with some files.
type rule func([]source) []string

// holds says that the whole tree keeps the rule.
func holds(t *testing.T, r rule) {
	t.Helper()
	for _, complaint := range r(tree(t)) {
		t.Error(complaint)
	}
}

// example is source text that a rule must, or must not, complain about.
type example struct {
	name string // of the file, which says its package
	text string
	want []string // a part of each complaint, in order; none: the text is fine
}

// sees says that the rule is not blind.
func sees(t *testing.T, r rule, examples []example) {
	t.Helper()
	for _, e := range examples {
		text := e.text
		if !strings.Contains(text, "package ") {
			text = "package p\n" + text
		}
		s, err := parse(token.NewFileSet(), e.name, text)
		if err != nil {
			t.Errorf("%s: the example does not parse: %v", e.name, err)
			continue
		}
		got := r([]source{s})
		matches := slices.EqualFunc(got, e.want, func(g, w string) bool { return strings.Contains(g, w) })
		if !matches {
			t.Errorf("%s:\n%s\ncomplaints %q, want %q", e.name, text, got, e.want)
		}
	}
}
