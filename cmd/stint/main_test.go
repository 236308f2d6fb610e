package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// limit is how long a test waits for what must happen. It is no measure of how
// fast that should be.
const limit = time.Minute

// TestMain makes the test binary answer as stint too, and as the commands that
// stint runs in these tests.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"stint":        func() { passwordCost = 4; main() },
		"witness":      witness,
		"argv":         argv,
		"onterm":       onTerm,
		"beats":        beats,
		"inforeground": inForeground,
		"awaitfile":    awaitFile,
	})
}

// leakChecked is a run of the tests that fails if it leaves a goroutine.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	// The race detector's second of sleep at each exit is for goroutines that
	// report late; here it would only make dozens of processes slow.
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	for _, v := range os.Environ() { // the caller's own settings
		if name := varName(v); strings.HasPrefix(name, "STINT_") {
			os.Unsetenv(name)
		}
	}
	// With a handler here, what the tests start has HUP as it should be, even if
	// the tests themselves were started to ignore it (nohup).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set { // most of a test here is waiting for a lease to end
		if err := flag.Set("test.parallel", "3"); err != nil {
			panic(err)
		}
	}
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestSessions runs the command lines of testdata/script.
func TestSessions(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("STATE_DIRECTORY", filepath.Join(e.WorkDir, "service"))
			e.Setenv("DB", "sqlite://"+filepath.Join(e.WorkDir, "l.db"))
			e.Setenv("NODE", freeAddress(t))
			e.Setenv("NODE2", freeAddress(t))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     code,
			"waitfile": waitFile,
			"served":   served,
			"store":    store,
			"row":      row,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// code N PROGRAM ARGS... fails unless the program's exit code is N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d; want %d", got, want)
	}
}

// waitfile FILE waits until a background command has made it.
func waitFile(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	for end := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s was not made within %v", file, limit)
		}
	}
}

// served ADDRESS waits until a node in the background serves there.
func served(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(limit); ts.Exec("stint", "serve", "status", "--authority", "etcd://"+args[0]) != nil; {
		if time.Now().After(end) {
			ts.Fatalf("nobody serves on %s within %v", args[0], limit)
		}
	}
}

// argv writes its arguments, one a line, each in brackets.
func argv() {
	for _, a := range os.Args[1:] {
		fmt.Printf("[%s]\n", a)
	}
}
