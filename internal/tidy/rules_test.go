package tidy

import (
	"go/ast"
	"testing"
)

// leavesOutNoRule complains where a driver of users could leave out a safety
// rule: only a simulator may, to show what the rule is for.
func leavesOutNoRule(files []source) (wrong []string) {
	for _, s := range files {
		if s.isTest() || under(s.pkg(), "sim") || under(s.pkg(), "internal/protocol") || under(s.pkg(), "cmd") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (id.Name == "Without" || id.Name == "OwnWait") {
				wrong = append(wrong, s.complain(id.Pos(), "only a simulator leaves out a safety rule"))
			}
			return true
		})
	}
	return wrong
}

func TestNoDriverOfUsersLeavesOutARule(t *testing.T) {
	holds(t, leavesOutNoRule)
	sees(t, leavesOutNoRule, []example{
		{"runtime.go", `func f() { _ = protocol.Config{Without: protocol.RuleMargin} }`, []string{"leaves out a safety rule"}},
		{"runtime.go", `func f() { cfg.Without = 1 }`, []string{"leaves out a safety rule"}},
		{"runtime.go", `func f() { _ = protocol.ObserverConfig{OwnWait: true} }`, []string{"leaves out a safety rule"}},
		{"sim/actor/worker.go", `func f() { cfg.Without = 1 }`, nil},
	})
}
