package plant

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
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
	patience = flag.Duration("patience", time.Minute, "a hunt that takes longer has caught a bug: the time of a world stands still")
	verdict  = flag.String("verdict", "", "a file for what shows a bug")
)

// TestHunt looks for a bug in the protocol that this test was built with: in
// random worlds, and in every scenario against its golden transcript. Without a
// bug it finds nothing.
func TestHunt(t *testing.T) {
	stuck := time.AfterFunc(*patience, func() {
		tell("the time stands still")
		os.Exit(1)
	})
	defer stuck.Stop()
	for _, hunt := range []func() string{exploring, playing} {
		if found := safely(hunt); found != "" {
			tell(found)
			t.Error(found)
		}
	}
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
	r := explore.Explore(context.Background(), explore.Options{Runs: *runs, Workers: runtime.GOMAXPROCS(0)})
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
