package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/billing"
)

// shipped builds the command as it is shipped: without the race detector, which
// would slow the workers down to where the demo is never run.
var shipped = sync.OnceValues(func() (string, error) {
	bin, err := exec.LookPath("stint") // in the folder that testscript removes at the end
	if err != nil {
		return "", err
	}
	exe := filepath.Join(filepath.Dir(bin), "shipped")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return exe, nil
})

// demo is a run of the built command with a folder of its own for what it
// leaves behind.
type demo struct {
	*exec.Cmd
	tmp    string
	out    io.ReadCloser
	stdout *bufio.Scanner
	stderr bytes.Buffer
	lines  []string
}

func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	return startDemoAt(t, "10", args...)
}

func startDemoAt(t *testing.T, speed string, args ...string) *demo {
	t.Helper()
	exe, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{Cmd: exec.Command(exe, append([]string{"demo", "billing", "--speed", speed}, args...)...), tmp: t.TempDir()}
	if err := os.Chmod(filepath.Dir(d.tmp), 0o711); err != nil { // a server there may be another user
		t.Fatal(err)
	}
	d.Env = append(os.Environ(), "TMPDIR="+d.tmp)
	d.Stderr = &d.stderr
	out, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	d.out, d.stdout = out, bufio.NewScanner(out)
	t.Cleanup(func() {
		d.Process.Kill()
		d.Wait()
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", strings.Join(d.lines, "\n"), d.stderr.String())
		}
	})
	return d
}

// steady plays a demo to its end, and plays another one if a short lease was lost
// because the machine was busy: then there is no story to see. What makes every one
// lose it is not taken for that.
func steady(t *testing.T, play func() *demo) *demo {
	t.Helper()
	for try := 1; ; try++ {
		d := play()
		d.until("")
		d.Wait()
		if why := d.tooBusy(); why == "" {
			return d
		} else if try == 3 {
			t.Fatalf("%d times: %s", try, why)
		}
	}
}

// tooBusy is why there was no story, of a demo that has ended.
func (d *demo) tooBusy() string {
	for _, why := range []string{"worker A lost its lease before it could be frozen", "worker B lost its lease with the leader that was killed"} {
		if strings.Contains(d.stderr.String(), why) {
			return why
		}
	}
	if token := leasesOfA.FindAllStringSubmatch(strings.Join(d.lines, "\n"), 2); len(token) == 2 && token[0][1] != token[1][1] {
		return "worker A was frozen with another lease than its first"
	}
	return ""
}

// leasesOfA finds the token of A's first lease, and then that of the next one, or
// that with which it is frozen.
var leasesOfA = regexp.MustCompile(`(\d+)  A (?:acquires the lease|is stopped with SIGSTOP)`)

// until reads lines up to the first that contains word, or all of them.
func (d *demo) until(word string) bool {
	for d.stdout.Scan() {
		d.lines = append(d.lines, d.stdout.Text())
		if word != "" && strings.Contains(d.stdout.Text(), word) {
			return true
		}
	}
	return false
}

// says demands that each text was printed.
func (d *demo) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(strings.Join(d.lines, "\n"), want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// ends demands the exit code, and that no process and no file is left.
func (d *demo) ends(t *testing.T, code int) {
	t.Helper()
	d.until("")
	d.Wait()
	if got := d.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	if left := processesOf(t, d.tmp); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left, err := os.ReadDir(d.tmp); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
}

// killed ends the demo with kill -9, and demands that soon no process is left.
func (d *demo) killed(t *testing.T, soon time.Duration) {
	t.Helper()
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.Wait()
	for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		left := processesOf(t, d.tmp)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left: %v", left)
		}
	}
}

// runs waits until so many processes of the demo are there.
func (d *demo) runs(t *testing.T, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d processes of the demo", want), func() bool { return len(processesOf(t, d.tmp)) == want })
}

// processesOf lists the processes that have the folder in their command line,
// as every worker has.
func processesOf(t *testing.T, folder string) (pids []string) {
	t.Helper()
	all, err := exec.Command("ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		all = processesOfLinux(t) // a small system may have no ps
	}
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, folder) {
			pids = append(pids, strings.Fields(line)[0])
		}
	}
	return pids
}

func processesOfLinux(t *testing.T) (all []byte) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there is neither ps nor /proc to look for processes in (%v)", err)
	}
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil { // others come and go
			all = fmt.Appendf(all, "%s %s\n", filepath.Base(filepath.Dir(path)), bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
	return all
}

// The frozen worker's late write is refused, and every customer is charged once.
func TestDemoBillsEveryoneOnce(t *testing.T) {
	t.Parallel()
	d := steady(t, func() *demo { return startDemo(t) })
	d.ends(t, 0)
	d.says(t, "is stopped with SIGSTOP", "sends chunk 2: REFUSED, token 1 is lower than the fence 2",
		"sets the job DONE again: its raise had made it RUNNING", "50,000 charged once, 0 twice, 0 never")
	if strings.Contains(strings.Join(d.lines, ""), "\x1b") {
		t.Error("colours are written to a pipe")
	}
}

// Without the fence the very same write lands.
func TestDemoUnfencedBillsAChunkTwice(t *testing.T) {
	t.Parallel()
	d := steady(t, func() *demo { return startDemo(t, "--unfenced") })
	d.ends(t, 1)
	d.says(t, "LANDED", "45,000 charged once, 5,000 twice, 0 never", "without --unfenced")
}

func TestDemoTellsItselfInJSON(t *testing.T) {
	t.Parallel()
	d := steady(t, func() *demo { return startDemo(t, "--json") })
	d.ends(t, 0)
	var steps []billing.Step
	var last billing.Event
	for _, l := range d.lines {
		last = billing.Event{}
		if err := json.Unmarshal([]byte(l), &last); err != nil {
			t.Fatalf("%v in %s", err, l)
		}
		steps = append(steps, last.Step)
	}
	if last.Step != billing.Verdict || last.Count == nil || last.Count.Once != 50000 || !slices.Contains(steps, billing.Frozen) {
		t.Errorf("the last line is %+v, the steps are %v", last, steps)
	}
}

// Ctrl-C while a worker is stopped leaves nothing running and nothing on disk.
func TestDemoInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	d := startDemoAt(t, "2") // the last worker goes three seconds after that, and not one
	if !d.until("is stopped with SIGSTOP") {
		t.Fatal("nobody was stopped")
	}
	d.runs(t, 3)
	if err := d.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.ends(t, 130)
}

// The same while its database is being made.
func TestDemoInterruptedAtItsBeginningSaysSo(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	if !d.until("Three worker") {
		t.Fatal("it does not begin")
	}
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.ends(t, 143)
	if d.stderr.Len() > 0 {
		t.Errorf("an interruption is told as a failure: %s", d.stderr.String())
	}
}

// The same when the reader of its output goes away, as in "stint demo | head".
func TestDemoWithoutReaderLeavesNothing(t *testing.T) {
	t.Parallel()
	d := startDemoAt(t, "2")
	if !d.until("bills chunk 1") {
		t.Fatal("nothing was billed")
	}
	if err := d.out.Close(); err != nil {
		t.Fatal(err)
	}
	d.ends(t, 128+int(syscall.SIGPIPE))
}

// Not even a supervisor that is killed leaves workers behind, stopped ones
// included.
func TestDemoKilledLeavesNoWorkers(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	if !d.until("is stopped with SIGSTOP") {
		t.Fatal("nobody was stopped")
	}
	d.killed(t, 30*time.Second)
}

func TestDemoKeepsTheDatabases(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--keep")
	d.until("")
	d.Wait()
	kept, err := filepath.Glob(filepath.Join(d.tmp, "stint-demo-*", "*.db"))
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept: %v (%v)", kept, err)
	}
	d.says(t, kept...)
}

func TestDemoRefusesOtherSpeeds(t *testing.T) {
	t.Parallel()
	exe, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(exe, "demo", "billing", "--speed", "3").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 64 || !bytes.Contains(out, []byte("1, 2, 5 or 10")) {
		t.Errorf("%v: %s", err, out)
	}
}

// Three real etcd processes; the one that leads is killed while B holds.
func TestDemoOnEtcdOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	d := steady(t, func() *demo { return startDemoAt(t, "2", "--authority", "etcd") })
	d.ends(t, 0)
	d.says(t, "is killed with SIGKILL while B holds the lease", "another node leads: n", "has renewed with the new leader: the same lease",
		"sends chunk 2: REFUSED", "50,000 charged once, 0 twice, 0 never", "B kept it, with the")
}

func TestDemoOnEtcdKilledLeavesNoNodes(t *testing.T) {
	t.Parallel()
	d := startDemoAt(t, "2", "--authority", "etcd")
	if !d.until("bills chunk 1") {
		t.Fatal("nothing was billed")
	}
	d.runs(t, 3+3) // workers and nodes
	d.killed(t, 60*time.Second)
}
