package tidy

import (
	"os/exec"
	"strings"
	"testing"
)

// thirdParty returns those import paths that are neither ours, nor of the
// standard library, nor of golang.org/x/sys.
func thirdParty(deps []string) []string {
	var found []string
	for _, d := range deps {
		first, _, _ := strings.Cut(d, "/")
		if !strings.Contains(first, ".") || d == module || strings.HasPrefix(d, module+"/") || strings.HasPrefix(d, "golang.org/x/sys/") {
			continue
		}
		found = append(found, d)
	}
	return found
}

// TestRootLinksNoThirdPartyPackage: who adopts the library adopts its
// dependencies, so there are none. The suites, which users link into tests of
// their own, may use what tests use.
func TestRootLinksNoThirdPartyPackage(t *testing.T) {
	args := []string{"-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	for _, pkg := range goList(t, "./...") {
		if dir, _ := folder(pkg); !isSupport(dir) {
			args = append(args, pkg)
		}
	}
	deps := goList(t, args...)
	if len(deps) < 5 {
		t.Fatalf("go list names only %q", deps)
	}
	for _, d := range thirdParty(deps) {
		t.Errorf("%s is linked into the root module's packages", d)
	}
	got := thirdParty([]string{module, module + "/fence", "golang.org/x/sys/unix", "context", "github.com/spf13/cobra", "golang.org/x/term"})
	if strings.Join(got, " ") != "github.com/spf13/cobra golang.org/x/term" {
		t.Errorf("the rule sees %q", got)
	}
}

// TestFenceLinksNoThirdPartyPackage: a service that only checks tokens gets the
// standard library and nothing else.
func TestFenceLinksNoThirdPartyPackage(t *testing.T) {
	for _, d := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./fence") {
		if d != module+"/fence" {
			t.Errorf("package fence links %s", d)
		}
	}
}

// goList runs `go list` in the root module and returns its lines.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
