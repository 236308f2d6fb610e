package plant

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/sim/explore"
	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/render"
	"github.com/stint-dev/stint/sim/scenarios"
	"github.com/stint-dev/stint/sim/script"
)

var (
	runs     = flag.Uint64("runs", 500, "random worlds that look for a bug")
	patience = flag.Duration("patience", 10*time.Second, "processor time: a world that takes more has caught a bug, its time stands still")
	first    = flag.Bool("first", false, "what catches a bug first is enough: half the time")
	verdict  = flag.String("verdict", "", "a file for what shows a bug")
)

// TestHunt looks for a bug in the protocol that this test was built with: in
// random worlds, and in every scenario against its golden transcript. Without a
// bug it finds nothing.
func TestHunt(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	if *verdict != "" { // no bug is planted otherwise, and the race detector makes a large scenario take long
		go watch(over)
	}
	for _, hunt := range []func() string{exploring, playing} {
		if found := safely(hunt); found != "" {
			tell(found)
			t.Error(found)
			if *first {
				return
			}
		}
	}
}

// worlds counts the worlds and scenarios that have ended.
var worlds atomic.Uint64

// watch ends the process when a world uses up the patience: by the processor's
// time, for on a busy machine the wall clock says nothing.
func watch(over chan struct{}) {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for n, since := worlds.Load(), processor(); ; {
		select {
		case <-over:
			return
		case <-t.C:
		}
		if now := worlds.Load(); now != n {
			n, since = now, processor()
		}
		if processor()-since > *patience {
			tell("the time stands still")
			os.Exit(1)
		}
	}
}

// processor is the time that this process has used of its processors.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tell adds a line to the verdict.
func tell(found string) {
	if *verdict == "" {
		return
	}
	f, err := os.OpenFile(*verdict, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return // the exit code says as much
	}
	defer f.Close()
	fmt.Fprintln(f, found)
}

// safely takes a panic for a bug that was found. One in a goroutine of the
// explorer ends the process, with a code of its own.
func safely(hunt func() string) (found string) {
	defer func() {
		if p := recover(); p != nil {
			found = fmt.Sprint("panic: ", p)
		}
	}()
	return hunt()
}

func exploring() string {
	r := explore.Explore(context.Background(), explore.Options{
		Runs: *runs, Workers: runtime.GOMAXPROCS(0), Progress: func(r explore.Report) { worlds.Store(r.Runs) },
	})
	if r.Found == nil {
		return ""
	}
	return fmt.Sprintf("explorer, world %d: %s", r.Found.Seed, r.Found.Broken.Promise)
}

func playing() string {
	figures, lines := "", ""
	n := 0
	for _, name := range scenarios.Names() {
		s, err := scenarios.Load(name, script.Change{})
		if err != nil {
			return err.Error()
		}
		worlds.Add(1)
		r := play.Run(s, play.Options{})
		variants, err := play.Variants(s, play.Options{})
		if err != nil {
			return err.Error()
		}
		switch {
		case len(r.Missing()) > 0:
			n++
			figures = name + ": " + r.Missing()[0]
		case render.Transcript(r, variants) != s.Want:
			n++
			lines = name + ": another transcript"
		}
	}
	switch {
	case figures != "":
		return fmt.Sprintf("%d scenarios, %s", n, figures)
	case lines != "":
		return fmt.Sprintf("%d scenarios, %s", n, lines)
	}
	return ""
}
