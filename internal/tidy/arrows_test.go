package tidy

import (
	"go/token"
	"slices"
	"strings"
	"testing"
)

// arrow says what the packages under a folder may import of ours. The first
// that matches counts.
type arrow struct {
	from string   // a folder, with what lies below it
	to   []string // folders, each with what lies below it; "." is package stint alone
}

var arrows = []arrow{
	{"cmd", []string{".", "fence", "authority", "backends", "internal", "cmd", "sim"}},
	{"bench", []string{".", "fence", "authority", "backends", "internal", "bench", "lab"}},
	{"lab", []string{".", "fence", "authority", "backends", "internal/sqlnode", "lab"}},
	// A backend is used with any version of the client, so it knows only the
	// two contracts.
	{"backends", []string{"fence", "authority", "backends"}},
	// The simulator runs the machines of the core, and nothing that drives them
	// in the real world.
	{"sim", []string{"fence", "authority", "internal/protocol", "sim"}},
	{"internal/tidy", nil},
	{"internal/clock", []string{"authority", "internal/clock"}},
	{"internal/protocol", []string{"fence", "authority", "internal/protocol"}},
	{"internal/scenario", []string{".", "fence", "authority", "internal"}},
	{"internal", []string{"fence", "authority", "internal"}},
	{"authority", []string{"fence", "authority"}},
	// It drives a machine of the core, as package stint does. No other package of
	// the resource's side imports it.
	{"fence/idempotent", []string{"fence", "authority", "internal/protocol"}},
	// A service that only checks tokens takes on nothing.
	{"fence", []string{"fence"}},
	{".", []string{"internal", "authority", "fence"}},
}

func importArrows(files []source) []string {
	var complaints []string
	for _, s := range files {
		s.imports(func(at token.Pos, what string) {
			to, ours := folder(what)
			if !ours {
				return
			}
			switch {
			case !mayImport(s, to):
				complaints = append(complaints, s.complain(at, "%s may not import %s: see the arrows in docs/design.md", s.pkg(), to))
			case !s.isTest() && !s.isSupport() && isSupport(to):
				complaints = append(complaints, s.complain(at, "%s is there for tests: production code may not import it", to))
			}
		})
	}
	return complaints
}

// folder turns an import path into our folder; "." is package stint.
func folder(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func mayImport(s source, to string) bool {
	for _, a := range arrows {
		if under(s.pkg(), a.from) {
			// A test in a package of its own imports what it tests.
			return to == s.pkg() || slices.ContainsFunc(a.to, func(f string) bool { return under(to, f) })
		}
	}
	return false // a new folder needs an arrow first
}

func under(pkg, dir string) bool {
	return pkg == dir || dir != "." && strings.HasPrefix(pkg, dir+"/")
}

func TestImportsFollowTheArrows(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, importArrows) })
	imports := func(what ...string) string {
		var text strings.Builder
		for _, w := range what {
			text.WriteString("import _ \"" + module + w + "\"\n")
		}
		return text.String()
	}
	sees(t, importArrows, []example{
		{"cmd/stint/main.go", imports("", "/internal/clock", "/backends/sqlite/sqlitelease"), nil},
		{"backends/sqlite/sqlitelease/a.go", imports("/authority", "/fence"), nil},
		{"backends/sqlite/sqlitelease/a.go", imports(""), []string{"may not import ."}},
		{"backends/sqlite/sqlitelease/a.go", imports("/internal/clock"), []string{"may not import internal/clock"}},
		{"fence/a.go", imports("/authority"), []string{"may not import authority"}},
		{"fence/sqlfence/a.go", imports("/fence"), nil},
		{"fence/sqlfence/a.go", imports("/internal/protocol"), []string{"may not import internal/protocol"}},
		{"fence/idempotent/a.go", imports("/fence/sqlfence", "/authority", "/internal/protocol"), nil},
		{"fence/idempotent/a.go", imports(""), []string{"may not import ."}},
		{"fence/fencetest/suite.go", imports("/backends/sqlite/sqlitelease"), []string{"may not import backends"}},
		{"authority/a.go", imports("/fence"), nil},
		{"authority/authoritytest/a.go", imports("/backends/sqlite"), []string{"may not import backends"}},
		{"authority/a.go", imports("/internal/protocol"), []string{"may not import internal/protocol"}},
		{"internal/protocol/a.go", imports("/authority", "/internal/clock"), []string{"may not import internal/clock"}},
		{"sim/actor/a.go", imports("/internal/protocol", "/authority", "/fence", "/sim/world"), nil},
		{"sim/actor/a.go", imports(""), []string{"may not import ."}},
		{"sim/store/a.go", imports("/backends/sqlite/sqlitelease"), []string{"may not import backends"}},
		{"runtime.go", imports("/internal/protocol", "/authority"), nil},
		{"runtime.go", imports("/backends/sqlite/sqlitelease"), []string{"may not import backends"}},
		{"runtime.go", imports("/authority/authoritytest"), []string{"there for tests"}},
		{"runtime_test.go", imports("/authority/authoritytest"), nil},
		{"brandnew/a.go", imports("/fence"), []string{"may not import fence"}},
	})
}

// testingStaysInTests: importing testing registers its flags in a user's
// program.
func testingStaysInTests(files []source) []string {
	var complaints []string
	for _, s := range files {
		if s.isTest() || s.isSupport() {
			continue
		}
		s.imports(func(at token.Pos, what string) {
			if what == "testing" || strings.HasPrefix(what, "testing/") {
				complaints = append(complaints, s.complain(at, "production packages never import %s", what))
			}
		})
	}
	return complaints
}

func TestNoProductionPackageImportsTesting(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, testingStaysInTests) })
	sees(t, testingStaysInTests, []example{
		{"lease.go", `import "testing"`, []string{"never import testing"}},
		{"lease.go", `import "testing/synctest"`, []string{"never import testing/synctest"}},
		{"lease_test.go", `import "testing"`, nil},
		{"fence/fencetest/suite.go", `import "testing"`, nil},
	})
}
