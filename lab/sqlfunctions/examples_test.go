package sqlfunctions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// example runs a file of contrib under a grant, as `stint run` would.
func example(t *testing.T, s *store, g fence.Grant, name string, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "STINT_NAME="+job, "STINT_GRANT="+g.String(), "DATABASE_URL="+s.at.DSN())
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s cannot be run (tools/need installs it): %v", name, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func contrib(path ...string) string {
	return filepath.Join(append([]string{"..", "..", "contrib"}, path...)...)
}

// python3 is the system's own: psycopg2 is a package of the distribution.
const python3 = "/usr/bin/python3"

func TestThePythonExampleIsFenced(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
	s.protect(t, "invoices", job, "")
	out, code := example(t, s, grant(7, "a"), python3, contrib("python", "fenced.py"))
	if code != 0 || !strings.Contains(out, "billed") || s.count(t) != 400 {
		t.Fatalf("it ended with %d, %d invoices:\n%s", code, s.count(t), out)
	}
	if r, err := s.f.Row(t.Context(), job); err != nil || r.State != fence.Done || r.Fence != 7 {
		t.Errorf("the row is %+v, %v", r, err)
	}
	// A later holder finds it all done, and an older one is refused.
	out, code = example(t, s, grant(12, "b"), python3, contrib("python", "fenced.py"))
	if code != 0 || !strings.Contains(out, "left it DONE") || s.count(t) != 400 {
		t.Fatalf("it ended with %d, %d invoices:\n%s", code, s.count(t), out)
	}
	out, code = example(t, s, grant(7, "a"), python3, contrib("python", "fenced.py"))
	if code != 76 || !strings.Contains(out, "has already admitted 12") || s.count(t) != 400 {
		t.Fatalf("the old holder ended with %d, %d invoices:\n%s", code, s.count(t), out)
	}
}

func TestThePsqlExampleIsFenced(t *testing.T) {
	t.Parallel()
	s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
	s.protect(t, "invoices", job, "")
	run := func(g fence.Grant) (string, int) {
		return example(t, s, g, "psql", "--no-psqlrc", "-d", s.at.DSN(), "-f", contrib("psql", "fenced.sql"))
	}
	if out, code := run(grant(7, "a")); code != 0 || s.count(t) != 400 {
		t.Fatalf("it ended with %d, %d invoices:\n%s", code, s.count(t), out)
	}
	if out, code := run(grant(12, "b")); code != 0 || s.count(t) != 400 {
		t.Fatalf("it ended with %d, %d invoices:\n%s", code, s.count(t), out)
	}
	if out, code := run(grant(7, "a")); code != 3 || !strings.Contains(out, "has already admitted 12") || s.count(t) != 400 {
		t.Fatalf("the old holder ended with %d, %d invoices:\n%s", code, s.count(t), out)
	}
}
