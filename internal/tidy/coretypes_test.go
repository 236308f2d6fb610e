package tidy

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"strings"
	"testing"
)

// typed is the protocol core with the types of its expressions.
type typed struct {
	files []source
	info  *types.Info
}

func check(t *testing.T, imp types.Importer, files []source) typed {
	t.Helper()
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	var asts []*ast.File
	for _, s := range files {
		asts = append(asts, s.ast)
	}
	conf := types.Config{Importer: imp}
	if _, err := conf.Check(module+"/"+core, files[0].fset, asts, info); err != nil {
		t.Fatal(err)
	}
	return typed{files, info}
}

// compiled imports the core's dependencies as the go command has built them.
func compiled(t *testing.T, fset *token.FileSet) types.Importer {
	exports := map[string]string{}
	for _, line := range goList(t, "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./"+core) {
		pkg, file, _ := strings.Cut(line, "\t")
		exports[pkg] = file
	}
	return importer.ForCompiler(fset, "gc", func(pkg string) (io.ReadCloser, error) { return os.Open(exports[pkg]) })
}

// mapRanges: the order of a map's keys differs from run to run, and a transcript
// with it. Keep a slice in order instead.
func (c typed) mapRanges() []string {
	var complaints []string
	for _, s := range c.files {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			r, ok := n.(*ast.RangeStmt)
			if !ok {
				return true
			}
			if _, isMap := c.info.TypeOf(r.X).Underlying().(*types.Map); isMap {
				complaints = append(complaints, s.complain(r.Pos(), "the core does not range over a map: its order differs from run to run; keep a slice"))
			}
			return true
		})
	}
	return complaints
}

// packageState finds package variables that are more than a table of constants:
// exported ones, which anybody may set, and those that something in the package
// writes to or takes the address of. Two machines would share them.
func (c typed) packageState() []string {
	var complaints []string
	vars := map[types.Object]bool{}
	for _, s := range c.files {
		for _, d := range s.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for _, name := range v.Names {
					vars[c.info.Defs[name]] = true
					switch {
					case name.Name == "_":
					case len(v.Values) == 0:
						complaints = append(complaints, s.complain(name.Pos(), "package variable %s has no value, so it is there to be written: keep state in the machine", name.Name))
					case name.IsExported() && !strings.HasPrefix(name.Name, "Err"):
						complaints = append(complaints, s.complain(name.Pos(), "package variable %s can be set from outside: make it a constant or a function", name.Name))
					}
				}
			}
		}
	}
	for _, s := range c.files {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			for _, target := range written(n) {
				if id := base(target); id != nil && vars[c.info.Uses[id]] {
					complaints = append(complaints, s.complain(n.Pos(), "package variable %s is written: keep state in the machine", id.Name))
				}
			}
			return true
		})
	}
	return complaints
}

// written lists what a statement or expression may change.
func written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (f.Name == "delete" || f.Name == "clear" || f.Name == "copy") {
			return n.Args[:1]
		}
	}
	return nil
}

// base is the variable that an expression like v.f[i] is part of.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func TestProtocolCoreKeepsNoHiddenStateOrOrder(t *testing.T) {
	var files []source
	for _, s := range tree(t) {
		if s.pkg() == core && !s.isTest() {
			files = append(files, s)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no files in %s", core)
	}
	c := check(t, compiled(t, files[0].fset), files)
	for _, complaint := range append(c.mapRanges(), c.packageState()...) {
		t.Error(complaint)
	}
}

func TestCoreStateRulesAreNotBlind(t *testing.T) {
	for text, want := range map[string]string{
		`var names = [...]string{"a"}; func f(i int) string { return names[i] }`: "",
		`var ErrX error = nil`:                                                            "",
		`var n int`:                                                                       "has no value",
		`var Names = []string{"a"}`:                                                       "from outside",
		`var n = 1; func f() { n++ }`:                                                     "is written",
		`var m = map[string]int{}; func f() { m["a"] = 1 }`:                               "is written",
		`var m = map[string]int{}; func f() { delete(m, "a") }`:                           "is written",
		`var s = struct{ n int }{1}; func f() *int { return &s.n }`:                       "is written",
		`func f(m map[string]int) { for range m {} }`:                                     "range over a map",
		`type t map[int]int; func f(m t) (s int) { for k := range m { s += k }; return }`: "range over a map",
		`func f(m []int) (s int) { for k := range m { s += k }; return }`:                 "",
	} {
		s, err := parse(token.NewFileSet(), core+"/a.go", "package protocol\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		c := check(t, nil, []source{s})
		got := strings.Join(append(c.mapRanges(), c.packageState()...), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s\ncomplaints %q, want %q", text, got, want)
		}
	}
}
