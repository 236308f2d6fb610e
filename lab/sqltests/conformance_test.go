package sqltests

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/fence/fencetest"
)

var writeTable = flag.Bool("conformance", false, "write the table of what held into "+tableFile)

const tableFile = "../../docs/sql-conformance.md"

// held is what TestConformance saw: by case, then by target.
var held = struct {
	sync.Mutex
	cases map[string]map[string]bool
}{cases: map[string]map[string]bool{}}

func TestConformance(t *testing.T) {
	t.Run("everywhere", func(t *testing.T) {
		each(t, everywhere(), func(t *testing.T, g target) {
			p := g.at(t)
			here, there := p.fresh(t, nil), p.reopen(t, nil)
			fencetest.Run(t, fencetest.Subject{Open: func(t *testing.T) fencetest.Handle {
				here.clear(t)
				peer := there.suite()
				t.Cleanup(func() { note(t, g) })
				return fencetest.Handle{Store: here.suite(), Peer: &peer}
			}})
		})
	})
	if *writeTable {
		held.Lock()
		defer held.Unlock()
		must(t, os.WriteFile(tableFile, []byte(table(func(c string, g target) bool { return held.cases[c][g.String()] })), 0o644))
	}
}

// note keeps how a case ended; its name is the last part of the test's.
func note(t *testing.T, g target) {
	held.Lock()
	defer held.Unlock()
	name := strings.ReplaceAll(t.Name()[strings.LastIndex(t.Name(), "/")+1:], "_", " ")
	if held.cases[name] == nil {
		held.cases[name] = map[string]bool{}
	}
	held.cases[name][g.String()] = !t.Failed()
}

func everywhere() []target { return append(append([]target{}, databases...), ways...) }

// clear makes the tables as new.
func (s *store) clear(t *testing.T) {
	t.Helper()
	for _, st := range []string{
		"DELETE FROM " + s.Fence, "UPDATE " + s.Fence + "_meta SET v = 0 WHERE k <> 'version'", "DELETE FROM " + s.Data,
	} {
		if _, err := s.db.ExecContext(background(t), st); err != nil {
			t.Fatal(st, err)
		}
	}
}

// table is the document: what holds, by case and target.
func table(holds func(c string, g target) bool) string {
	var b strings.Builder
	b.WriteString(`# What holds on which database

Written by ` + "`go test ./lab/sqltests -run TestConformance -conformance`" + `, from a run of the
suite of the resource's side (` + "`fence/fencetest`" + `) over real servers, each case by two
connection pools. What the servers are put through besides (processes killed and
stopped, connections cut, disks filled) is in [guarantees.md](guarantees.md).

The columns, by isolation level of every transaction that does not ask for
another, and by driver and way:

`)
	for i, g := range everywhere() {
		fmt.Fprintf(&b, "%d. %s, %s, %s\n", i+1, g.database, g.isolation, g.driver)
	}
	b.WriteString("\n| case | what it defends |")
	for i := range everywhere() {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(everywhere())) + "\n")
	for _, c := range fencetest.Cases() {
		fmt.Fprintf(&b, "| %s | %s |", c.Name, c.Sentence)
		for _, g := range everywhere() {
			cell := "holds"
			if !holds(c.Name, g) {
				cell = "**no**"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A table that says less, or more, than the suite demands today would mislead.
func TestTheConformanceTableIsCurrent(t *testing.T) {
	got, err := os.ReadFile(tableFile)
	must(t, err)
	if want := table(func(string, target) bool { return true }); string(got) != want {
		t.Errorf("%s is not what the suite demands now: write it with go test ./lab/sqltests -run TestConformance -conformance", tableFile)
	}
}
