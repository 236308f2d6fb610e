package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// ban forbids names of one package in some files, and says what to use instead.
type ban struct {
	path    string // import path
	names   []string
	where   func(source) bool
	instead string
	// but lists files that have a good reason, which their code states.
	but []string
}

func production(s source) bool { return !s.isTest() && !s.isSupport() && !under(s.pkg(), "bench") }

func library(s source) bool { return production(s) && !under(s.pkg(), "cmd") }

// holderSide is the code that decides when a holder must have stopped.
func holderSide(s source) bool {
	return production(s) && (s.pkg() == "." || under(s.pkg(), "internal")) && !under(s.pkg(), "internal/clock")
}

var bans = []ban{
	{
		path: "time", names: []string{"Now", "Since", "Until"}, where: library,
		instead: "authority.BootClock, which counts suspended time and never steps; a wall clock is for people only",
		but:     wallClocks,
	},
	{
		path: "time", names: []string{"Sleep"}, where: library,
		instead: "a wait that ends with its context",
		but:     naps,
	},
	{
		path: "time", names: []string{"After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}, where: holderSide,
		instead: "an alarm of internal/clock: these timers stand still while the machine sleeps",
		but:     shortTimers,
	},
	{
		path: "fmt", names: []string{"Print", "Printf", "Println"}, where: library,
		instead: "an error or a returned value: a library does not write to its user's output",
	},
	{
		path: "log", names: []string{"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf"}, where: library,
		instead: "an error or a returned value: a library does not write to its user's output",
	},
	{
		path: "os", names: []string{"Exit"}, where: library,
		instead: "an error: only a command ends its process",
		but:     []string{"lab/etcdcluster/main.go"}, // the end of a member's process
	},
}

// wallClocks are the files that read the wall clock, to show it to people or to
// tell what is idle, or the clock of package time where there is no other.
var wallClocks = []string{
	"authority/clock_other.go",
	"backends/etcdlease/value.go",                                                                // State.Since
	"authority/memlease/list.go", "authority/memlease/memlease.go", "authority/memlease/wait.go", // State.Since; who still stands in line
	"backends/etcdlease/tls.go",                                                                                              // certificates are dated by it
	"backends/sqlite/sqlitelease/grant.go", "backends/sqlite/sqlitelease/keeper.go", "backends/sqlite/sqlitelease/listen.go", // State.Since; callers not heard of; the age of a pipe
	"backends/sqlite/sqlitelease/queue.go",  // which caller was last heard of when
	"backends/sqlite/sqlitelease/writer.go", // how long the file has been blocked, in an error's text
	"fence/left.go",                         // the deadline of a context is by that clock
	"fence/mem.go", "fence/mem_ops.go",      // Row.Since; what Prune takes for idle
	"internal/clock/clock.go", // the clock of testing/synctest
}

// naps are the files that sleep for about a millisecond between two tries, in a
// loop that ends with its context.
var naps = []string{
	"backends/sqlite/sqlitelease/conn.go",
}

// shortTimers are the holder's files that wait for something else than a lease's
// times.
var shortTimers = []string{
	"runtime.go", // how long Close waits for its releases
	"calls.go",   // how long Close waits for requests under way

	"internal/sqlnode/process.go", // between two looks whether a server serves
}

func bannedNames(files []source) []string {
	var complaints []string
	for _, b := range bans {
		complaints = append(complaints, b.broken(files, b.but)...)
	}
	return complaints
}

func (b ban) broken(files []source, but []string) []string {
	var complaints []string
	for _, s := range files {
		local := s.named(b.path)
		if local != "" && b.where(s) && !slices.Contains(but, s.path) {
			ast.Inspect(s.ast, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(b.names, sel.Sel.Name) {
						complaints = append(complaints, s.complain(n.Pos(), "%s.%s is banned here: use %s", b.path, sel.Sel.Name, b.instead))
					}
				}
				return true
			})
		}
	}
	return complaints
}

func TestBannedNamesHaveReplacements(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, bannedNames) })
	t.Run("every exception is needed", func(t *testing.T) {
		files := tree(t)
		for _, b := range bans {
			broken := b.broken(files, nil)
			for _, name := range b.but {
				if !slices.ContainsFunc(broken, func(c string) bool { return strings.HasPrefix(c, name+":") }) {
					t.Errorf("%s is excepted from the ban of %s.%v, and keeps it", name, b.path, b.names)
				}
			}
		}
	})
	sees(t, bannedNames, []example{
		{"lease.go", `import "time"; var t = time.Now()`, []string{"time.Now is banned here: use authority.BootClock"}},
		{"lease.go", `import "time"; var t = time.Second`, nil},
		{"lease.go", `import "time"; var t = time.NewTimer(1)`, []string{"time.NewTimer is banned"}},
		{"backends/sqlite/sqlitelease/a.go", `import "time"; var t = time.NewTimer(1)`, nil},
		{"backends/sqlite/sqlitelease/a.go", `import "time"; func f() { time.Sleep(1) }`, []string{"time.Sleep is banned"}},
		{"lease_test.go", `import "time"; var t = time.Now()`, nil},
		{"authority/clock_other.go", `import "time"; var t = time.Now()`, nil},
		{"fence/a.go", `import "fmt"; func f() { fmt.Println() }`, []string{"fmt.Println is banned"}},
		{"cmd/stint/main.go", `import "fmt"; func f() { fmt.Println() }`, nil},
	})
}

// otherSystems are the test files that skip what a system lacks on which CI does
// not run.
var otherSystems = []string{
	"cmd/stint/demo_test.go", // macOS has no /proc
}

// noSkips: a test that is skipped where CI runs promises nothing.
func noSkips(files []source) []string {
	var complaints []string
	for _, s := range files {
		if !s.isTest() && !s.isSupport() || slices.Contains(otherSystems, s.path) {
			continue
		}
		var drawn []*ast.BlockStmt // bodies of functions that rapid calls
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				drawn = appendDrawn(drawn, s, n.Type, n.Body)
				if asksForCI(n) {
					return false
				}
			case *ast.FuncLit:
				drawn = appendDrawn(drawn, s, n.Type, n.Body)
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && slices.Contains([]string{"t", "tb", "b"}, x.Name) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, n.Sel.Name) &&
					!slices.ContainsFunc(drawn, func(b *ast.BlockStmt) bool { return b.Pos() < n.Pos() && n.Pos() < b.End() }) {
					complaints = append(complaints, s.complain(n.Pos(), "a skipped test promises nothing: install what it needs (tools/need) or fail"))
				}
			}
			return true
		})
	}
	return complaints
}

// asksForCI reports whether a function looks at the variable that CI sets, to
// fail there where it skips elsewhere.
func asksForCI(fn *ast.FuncDecl) (asks bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Value == `"CI"` {
			asks = true
		}
		return true
	})
	return asks
}

// appendDrawn adds the body of a function that takes a *rapid.T: there, Skip
// means that a drawn action does not apply, and another one is drawn.
func appendDrawn(drawn []*ast.BlockStmt, s source, fn *ast.FuncType, body *ast.BlockStmt) []*ast.BlockStmt {
	rapid := s.named("pgregory.net/rapid")
	for _, p := range fn.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok && rapid != "" && body != nil {
			if sel, ok := star.X.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == rapid {
					drawn = append(drawn, body)
				}
			}
		}
	}
	return drawn
}

func TestNoTestIsSkipped(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, noSkips) })
	sees(t, noSkips, []example{
		{"a_test.go", `import "testing"; func TestA(t *testing.T) { t.Skip("no engine") }`, []string{"promises nothing"}},
		{"a_test.go", `import "testing"; func TestA(t *testing.T) { t.Log("x") }`, nil},
		{"a_test.go", `import ("os"; "testing"); func TestA(t *testing.T) { if os.Getenv("CI") == "" { t.Skip("no engine") } }`, nil},
		{"a_test.go", `import "pgregory.net/rapid"; func draw(t *rapid.T) { t.Skip("not now") }`, nil},
	})
}

// sleepsInTests: a test waits for what it needs, with a deadline; a sleep hopes.
// In a bubble of testing/synctest it does not: time stands still until everybody
// sleeps.
func sleepsInTests(files []source) []string {
	var complaints []string
	for _, s := range files {
		local := s.named("time")
		if !s.isTest() || local == "" || s.named("testing/synctest") != "" {
			continue
		}
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if _, loop := n.(*ast.ForStmt); loop {
					return false // between two looks at a condition
				}
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && !explained(s, n) {
						complaints = append(complaints, s.complain(n.Pos(), "a sleep that hopes: wait for a condition in a loop, or say in a comment beside it why this time has to pass"))
					}
				}
				return true
			})
		}
	}
	return complaints
}

// explained reports whether a comment stands on the node's line or at most three
// lines before it.
func explained(s source, n ast.Node) bool {
	line := s.fset.Position(n.Pos()).Line
	return slices.ContainsFunc(s.ast.Comments, func(c *ast.CommentGroup) bool {
		end := s.fset.Position(c.End()).Line
		return line-3 <= end && end <= line
	})
}

func TestNoTestSleepsInHope(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, sleepsInTests) })
	sees(t, sleepsInTests, []example{
		{"a_test.go", "import \"time\"\nfunc f() {\n\ttime.Sleep(1)\n}", []string{"a sleep that hopes"}},
		{"a_test.go", "import \"time\"\nfunc f() {\n\tfor !g() {\n\t\ttime.Sleep(1)\n\t}\n}", nil},
		{"a_test.go", "import \"time\"\nfunc f() {\n\t// The lease has to run out.\n\ttime.Sleep(1)\n}", nil},
	})
}

// strayWords finds text that belongs to one machine or one place, not to the
// project.
func strayWords(name, text string) []string {
	var complaints []string
	if strings.Contains(text, "\x00") {
		return nil // a binary: what somebody has built here
	}
	for i, line := range strings.Split(text, "\n") {
		for _, word := range []string{"/root" + "/go", "/mnt" + "/c", "kill" + "all ", "p" + "kill "} {
			if strings.Contains(line, word) {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %q has no place in the project", name, i+1, word))
			}
		}
		if m := reportNumber.FindString(line); m != "" {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s: name the promise, not a report", name, i+1, m))
		}
	}
	return complaints
}
