package tidy

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reportNumber is how somebody else's list of reports is numbered.
var reportNumber = regexp.MustCompile(`\bB[0-9]{3}\b`)

func TestFilesNameNoForeignPlace(t *testing.T) {
	walk(t, func(name string) {
		if strings.HasSuffix(name, ".sum") || strings.HasPrefix(name, "LICENSE") {
			return
		}
		for _, complaint := range strayWords(name, read(t, name)) {
			t.Error(complaint)
		}
	})
	for text, want := range map[string]int{"see /root" + "/go/x": 1, "case B" + "011": 1, "fine, B01": 0} {
		if got := strayWords("a.md", text); len(got) != want {
			t.Errorf("%q: complaints %q, want %d", text, got, want)
		}
	}
}

// commented: what users may call says what it does, in which units, and with
// which errors. At least it says something.
func commented(files []source) []string {
	var complaints []string
	for _, s := range files {
		if s.isTest() || under(s.pkg(), "internal") || s.ast.Name.Name == "main" || strings.Contains(s.path, "/internal/") {
			continue
		}
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && d.Name.IsExported() && receiverExported(d) && !wellKnown[d.Name.Name] {
					complaints = append(complaints, s.complain(d.Pos(), "%s has no comment", d.Name.Name))
				}
			case *ast.GenDecl:
				for _, name := range bareNames(d) {
					complaints = append(complaints, s.complain(name.Pos(), "%s has no comment", name.Name))
				}
			}
		}
	}
	return complaints
}

// wellKnown methods do what their name says in every package.
var wellKnown = map[string]bool{"Error": true, "String": true, "Unwrap": true}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// bareNames returns a declaration's exported names with no comment of their own
// and none over their group.
func bareNames(d *ast.GenDecl) []*ast.Ident {
	if d.Tok == token.IMPORT || d.Doc != nil {
		return nil
	}
	var bare []*ast.Ident
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && spec.Doc == nil {
				bare = append(bare, spec.Name)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && spec.Doc == nil && spec.Comment == nil {
					bare = append(bare, name)
				}
			}
		}
	}
	return bare
}

func TestExportedNamesAreCommented(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, commented) })
	sees(t, commented, []example{
		{"fence/a.go", "func F() {}", []string{"F has no comment"}},
		{"fence/a.go", "// F is.\nfunc F() {}", nil},
		{"fence/a.go", "type T struct{}", []string{"T has no comment"}},
		{"fence/a.go", "type t struct{}\nfunc (t) M() {}", nil},
		{"fence/a.go", "// T is.\ntype T struct{}\nfunc (*T) M() {}", []string{"M has no comment"}},
		{"fence/a.go", "const C = 1", []string{"C has no comment"}},
		{"fence/a.go", "// Sizes.\nconst (\n\tC = 1\n)", nil},
		{"internal/clock/a.go", "func F() {}", nil},
	})
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said, seen := map[string]bool{}, map[string]bool{}
	for _, s := range tree(t) {
		if !s.isTest() {
			seen[s.pkg()] = true
			said[s.pkg()] = said[s.pkg()] || s.ast.Doc != nil
		}
	}
	for pkg := range seen {
		if !said[pkg] {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

var (
	mdLink   = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	testName = regexp.MustCompile("`(\\w+)\\.(Test\\w+)(?:/([^`]+))?`")
)

func documents(t *testing.T) []string {
	var all []string
	walk(t, func(name string) {
		if strings.HasSuffix(name, ".md") {
			all = append(all, name)
		}
	})
	if len(all) < 5 {
		t.Fatalf("only these documents: %q", all)
	}
	return all
}

func TestDocumentsLinkToWhatExists(t *testing.T) {
	for _, name := range documents(t) {
		for _, m := range mdLink.FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(root, path.Dir(name), m[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
}

// known is what tests there are, and every string in the Go files and every
// file of a testdata folder: the names of cases are among them.
type known struct {
	tests   map[string]bool // "fence.TestX", by the package's name
	strings map[string]bool // as the testing package writes them, with "_" for a space
}

func knownIn(files []source) known {
	k := known{map[string]bool{}, map[string]bool{}}
	for _, s := range files {
		pkg := strings.TrimSuffix(s.ast.Name.Name, "_test")
		if pkg == "main" {
			pkg = path.Base(s.pkg())
		}
		for _, d := range s.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && s.isTest() && fn.Recv == nil {
				k.tests[pkg+"."+fn.Name.Name] = true
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					k.strings[underscored(text)] = true
				}
			}
			return true
		})
	}
	return k
}

func underscored(s string) string { return strings.ReplaceAll(s, " ", "_") }

// unknownTests lists the tests that a document names and nobody wrote.
func (k known) unknownTests(text string) []string {
	var unknown []string
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		if !k.tests[m[1]+"."+m[2]] {
			unknown = append(unknown, m[1]+"."+m[2])
			continue
		}
		if m[3] != "" && !k.strings[underscored(m[3])] && !slices.ContainsFunc(strings.Split(m[3], "/"), func(part string) bool { return k.strings[underscored(part)] }) {
			unknown = append(unknown, strings.Trim(m[0], "`"))
		}
	}
	return unknown
}

// TestDocumentsNameTestsThatExist: a promise names the test that would fail if
// it were broken. A name that nobody wrote is a promise that nobody keeps.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	k := knownIn(tree(t))
	walk(t, func(name string) {
		if strings.Contains(name, "/testdata/") {
			k.strings[strings.TrimSuffix(path.Base(name), path.Ext(name))] = true
		}
	})
	for _, name := range documents(t) {
		for _, test := range k.unknownTests(read(t, name)) {
			t.Errorf("%s names %s, which does not exist", name, test)
		}
	}
	guarantees := read(t, "docs/guarantees.md")
	if n := len(testName.FindAllString(guarantees, -1)); n < 10 {
		t.Errorf("docs/guarantees.md names only %d tests", n)
	}
	got := k.unknownTests("`tidy.TestFunctionsFitOnAScreen`, `tidy.TestNoSuchThing`, `tidy.TestFilesHaveOneSubject/no such case at all`, `tidy.TestNoTestIsSkipped/the tree`")
	if want := []string{"tidy.TestNoSuchThing", "tidy.TestFilesHaveOneSubject/no such case at all"}; !slices.Equal(got, want) {
		t.Errorf("the rule sees %q, want %q", got, want)
	}
}
