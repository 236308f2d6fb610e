package etcdtests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rateEnv says how fast a member's clock runs that is built for it.
const rateEnv = "STINT_LAB_CLOCK_RATE"

// rateSource is the clock of etcd's leases in such a member.
const rateSource = `package lease

import (
	"os"
	"strconv"
	"time"
)

var clockBegan, clockRate = time.Now(), readClockRate()

func readClockRate() float64 {
	rate, err := strconv.ParseFloat(os.Getenv("` + rateEnv + `"), 64)
	if err != nil {
		panic("` + rateEnv + `: " + err.Error())
	}
	return rate
}

func clockNow() time.Time {
	return clockBegan.Add(time.Duration(clockRate * float64(time.Since(clockBegan))))
}
`

// clockCalls are the calls of the clock in etcd's leases, by file, and how many
// there are: a later etcd with others is to be looked at first.
var clockCalls = map[string]map[string]int{
	"lease/lease.go":  {"time.Now()": 1, "time.Until(l.expiry)": 1},
	"lease/lessor.go": {"time.Now()": 3},
}

var clockNow = strings.NewReplacer("time.Now()", "clockNow()", "time.Until(l.expiry)", "l.expiry.Sub(clockNow())")

// memberWithAClock builds a member whose leases run by a clock of another rate.
// The go command replaces no file of a module that it has fetched, so etcd's
// server is copied, and a workspace says so. Where the copy lies decides whether
// what was compiled is found again the next time.
func memberWithAClock(t *testing.T) (program string) {
	t.Helper()
	source := strings.TrimSpace(command(t, nil, "go", "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3"))
	copied := copyServer(t, source)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "go.work")
	text := fmt.Sprintf("go 1.26.0\n\nuse (\n\t%s\n\t%s\n\t%s\n)\n\nreplace go.etcd.io/etcd/server/v3 => %s\n",
		root, filepath.Join(root, "backends"), filepath.Join(root, "lab"), copied)
	if err := os.WriteFile(work, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "member")
	build := []string{"build", "-ldflags=-s -w", "-o", program}
	if raceDetector { // what else it is made of is compiled so
		build = append(build, "-race")
	}
	command(t, []string{"GOWORK=" + work}, "go", append(build, "github.com/stint-dev/stint/lab/etcdmember")...)
	return program
}

func command(t *testing.T, environ []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), environ...)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, said.String())
	}
	return string(out)
}

// copyServer copies etcd's server with another clock, unless it is there.
func copyServer(t *testing.T, source string) (dir string) {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		base = t.TempDir()
	}
	key := sha256.Sum256([]byte(source + rateSource + fmt.Sprint(clockCalls)))
	dir = filepath.Join(base, "stint-lab", fmt.Sprintf("etcd-%x", key[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	whole := filepath.Join(temp, "server")
	if err := os.CopyFS(whole, goFiles{os.DirFS(source)}); err != nil {
		t.Fatal(err)
	}
	for file, calls := range clockCalls {
		patch(t, filepath.Join(whole, file), calls)
	}
	if err := os.WriteFile(filepath.Join(whole, "lease", "clockrate.go"), []byte(rateSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another run was first
		t.Fatal(err)
	}
	return dir
}

func patch(t *testing.T, file string, calls map[string]int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for call, n := range calls {
		if got := strings.Count(string(text), call); got != n {
			t.Fatalf("%s has %s %d times, not %d", file, call, got, n)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(clockNow.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goFiles leaves out what is not compiled.
type goFiles struct{ fs.FS }

func (g goFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(g.FS, name)
	var kept []fs.DirEntry
	for _, e := range all {
		ours := e.IsDir() && e.Name() != "testdata" || strings.HasPrefix(e.Name(), "go.") ||
			strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go")
		if ours {
			kept = append(kept, e)
		}
	}
	return kept, err
}
