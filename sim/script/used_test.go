package script

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// builders are the functions of package play that build each kind, beside those
// that every kind has.
var builders = map[string][]string{
	"worker": {"addWorker"}, "observer": {"addObserver"}, "candidate": {"addCandidate"}, "sweeper": {"addSweeper"},
	"writer": {"addWriter"}, "client": {"addClient"}, "reader": {"addBook"}, "editor": {"addBook"}, "payer": {"addPayer"},
	"taker": {"addActor"}, "crowd": {"addCrowd"},
}

// TestEveryParameterOfAnActorIsUsed: a parameter that the parser takes and nobody
// reads would mislead whoever sets it. So would a verb.
func TestEveryParameterOfAnActorIsUsed(t *testing.T) {
	words := wordsOfPlay(t)
	for kind, own := range actorKinds {
		read := map[string]bool{}
		for _, name := range append(builders[kind], "machine") {
			maps.Copy(read, words[name])
		}
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if !read[name] {
				t.Errorf("%s: nobody reads the parameter %s", kind, name)
			}
		}
		for _, verb := range slices.Sorted(maps.Keys(actorVerbs[kind])) {
			if !read[verb] {
				t.Errorf("%s: nobody does what %s asks for", kind, verb)
			}
		}
	}
}

// wordsOfPlay are the texts in each function of package play.
func wordsOfPlay(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../play/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	words := map[string]map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			in := map[string]bool{}
			ast.Inspect(fn, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						in[text] = true
					}
				}
				return true
			})
			words[fn.Name.Name] = in
		}
	}
	return words
}
