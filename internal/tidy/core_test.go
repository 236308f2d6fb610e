package tidy

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

const core = "internal/protocol"

// coreImports is all that the protocol core may use: no I/O, no randomness, and
// nothing that iterates over a map.
var coreImports = []string{
	"cmp", "container/heap", "encoding/binary", "errors", "fmt", "math", "math/bits", "slices", "strconv", "strings", "time",
	module + "/authority", module + "/fence",
}

// coreBans are parts of those packages that read a clock, wait, or reach out.
var coreBans = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"fmt": {"Print", "Printf", "Println", "Fprint", "Fprintf", "Fprintln", "Scan", "Scanf", "Scanln",
		"Fscan", "Fscanf", "Fscanln"},
	"encoding/binary":     {"Read", "Write", "NativeEndian"},
	module + "/authority": {"BootClock", "Open", "Register", "Schemes"},
}

// corePurity: what a simulator explores is what users run only while a machine's
// answer depends on nothing but its state, the time it is told and the event.
func corePurity(files []source) []string {
	var complaints []string
	for _, s := range files {
		if s.isTest() || !under(s.pkg(), core) {
			continue
		}
		say := func(at token.Pos, format string, args ...any) {
			complaints = append(complaints, s.complain(at, format, args...))
		}
		s.imports(func(at token.Pos, what string) {
			if !slices.Contains(coreImports, what) {
				say(at, "the core may not import %s", what)
			}
		})
		banned := map[string][]string{}
		for path, names := range coreBans {
			if local := s.named(path); local != "" {
				banned[local] = names
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n.Pos(), "the core starts no goroutine")
			case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				say(n.Pos(), "the core uses no channel")
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					say(n.Pos(), "the core uses no channel")
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(banned[x.Name], n.Sel.Name) {
					say(n.Pos(), "the core may not use %s.%s: the time is Step's argument, and what is to be done is an effect", x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
	return complaints
}

func TestProtocolCoreIsPure(t *testing.T) {
	t.Run("the tree", func(t *testing.T) { holds(t, corePurity) })
	const file = core + "/holder.go"
	sees(t, corePurity, []example{
		{file, `import "time"; func f(d time.Duration) time.Duration { return 2 * d }`, nil},
		{file, `import "time"; var f = time.Now`, []string{"may not use time.Now"}},
		{file, `import stdtime "time"; var f = stdtime.Since`, []string{"may not use stdtime.Since"}},
		{file, `import "github.com/stint-dev/stint/authority"; var c authority.BootClock`, []string{"may not use authority.BootClock"}},
		{file, `import "fmt"; func f() { fmt.Println() }`, []string{"may not use fmt.Println"}},
		{file, `import "math/rand/v2"; var n = rand.Int()`, []string{"may not import math/rand/v2"}},
		{file, `import "encoding/binary"; var b = binary.AppendUvarint(nil, 7)`, nil},
		{file, `import "encoding/binary"; var n = binary.NativeEndian`, []string{"may not use binary.NativeEndian"}},
		{file, `import "sync"; var mu sync.Mutex`, []string{"may not import sync"}},
		{file, `import "maps"; var _ = maps.Keys[map[int]int]`, []string{"may not import maps"}},
		{file, `func f(g func()) { go g() }`, []string{"no goroutine"}},
		{file, `func f(c chan int) {}`, []string{"no channel"}},
		{file, `type c interface{ C() int }; func f(x c) { select {} }`, []string{"no channel"}},
		{"runtime.go", `import "time"; var f = time.Now`, nil},
	})
}
