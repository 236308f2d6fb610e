//go:build unix && !race

package scenarios

import (
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/sim/play"
	"github.com/stint-dev/stint/sim/render"
	"github.com/stint-dev/stint/sim/script"
)

// TestTheStoryIsToldAtOnce: the run, the run without the fence beside it and what
// is written of both take less than 100 ms. It is processor time, the least of
// ten, so that a busy machine is not taken for a slow program; the race detector
// is one.
func TestTheStoryIsToldAtOnce(t *testing.T) {
	least := time.Hour
	for range 10 {
		before := processor(t)
		s, err := Load("story", script.Change{})
		if err != nil {
			t.Fatal(err)
		}
		variants, err := play.Variants(s, play.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if text := render.Head(s) + render.Transcript(play.Run(s, play.Options{}), variants); len(text) < 5000 {
			t.Fatalf("that is no story:\n%s", text)
		}
		least = min(least, processor(t)-before)
	}
	t.Logf("%v", least)
	if least > 100*time.Millisecond {
		t.Errorf("the story takes %v of a processor, more than 100ms", least)
	}
}

// processor is the time that this process has used of its processors.
func processor(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
