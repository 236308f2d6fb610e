package billing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/authority"
)

// TestMain lets the test binary be the worker process, as stint is in the demo.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "billing-worker" {
		if err := RunWorker(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The race detector's second of sleep at each exit is for goroutines that
	// report late; here it would only make dozens of processes slow.
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what has to happen. It is no measure of
// how fast that should be.
const patience = 90 * time.Second

// rig is a small job with real worker processes.
type rig struct {
	t    *testing.T
	dir  string
	ttl  time.Duration
	cast Cast
}

const rigChunks, rigPerChunk = 4, 50

func newRig(t *testing.T, ttl time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), ttl: ttl}
	if err := Prepare(context.Background(), StoreFile(r.dir), rigChunks, rigPerChunk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cast.Kill)
	return r
}

// actor is a worker process and all that it said.
type actor struct {
	*Process
	r       *rig
	mu      sync.Mutex
	events  []Event
	changed chan struct{}
}

func (r *rig) start(who string, pace time.Duration, hold Hold) *actor {
	r.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	a := &actor{r: r, changed: make(chan struct{}, 1)}
	p, err := Start([]string{exe, "billing-worker"}, Config{
		Who: who, Store: StoreFile(r.dir), Authority: AuthorityURL(r.dir), TTL: r.ttl, Pace: pace, Hold: hold,
	}, a.hear)
	if err != nil {
		r.t.Fatal(err)
	}
	a.Process = p
	r.cast.Add(p)
	return a
}

func (a *actor) hear(e Event) {
	a.mu.Lock()
	a.events = append(a.events, e)
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *actor) all() []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// await returns the first event that is wanted, from all that were said.
func (a *actor) await(what string, wanted func(Event) bool) Event {
	a.r.t.Helper()
	deadline := time.After(patience)
	for {
		all := a.all()
		if i := slices.IndexFunc(all, wanted); i >= 0 {
			return all[i]
		}
		if i := slices.IndexFunc(all, step(Exited)); i >= 0 {
			a.r.t.Fatalf("%s ended before %s (%s); it said:\n%s", a.Who, what, all[i].Err, said(all))
		}
		select {
		case <-a.changed:
		case <-deadline:
			a.r.t.Fatalf("%s: no %s within %v; it said:\n%s", a.Who, what, patience, said(all))
		}
	}
}

// ended waits until the process has ended by itself, and returns its last word.
func (a *actor) ended() Event {
	a.r.t.Helper()
	if e := a.await("exit", step(Exited)); e.Err != "" {
		a.r.t.Fatalf("%s failed: %s; it said:\n%s", a.Who, e.Err, said(a.all()))
	}
	return a.await("last word", step(Ended))
}

func step(s Step) func(Event) bool { return func(e Event) bool { return e.Step == s } }

func held(e Event) bool { return e.Held }

// lastGranted bounds when the authority last granted or renewed a worker's
// lease: not before the one, not after the other.
func lastGranted(all []Event) (from, to authority.Instant) {
	var asked, held authority.Instant
	unknown := false
	for _, e := range all {
		switch {
		case e.Step == BeforeAcquire && from == 0:
			from = e.At // a try without an answer may have been the one
		case e.Step == BeforeRenew:
			asked = e.At
		case e.Step == AfterAcquire:
			to = e.At
		case e.Step == AfterRenew && e.Err == "":
			from, to, unknown = asked, e.At, false
		case e.Step == AfterRenew:
			unknown = true // it may have been applied later
		}
		if e.Held {
			held = e.At // by then everything was
		}
	}
	if unknown {
		to = held
	}
	return from, to
}

// verdict demands that every invoice was charged exactly once.
func (r *rig) verdict() {
	r.t.Helper()
	db, err := OpenDB(StoreFile(r.dir), time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	c, err := (&Store{DB: db}).Count(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	if !c.OK() || c.Once != rigChunks*rigPerChunk {
		r.t.Errorf("%v; want %d charged once and nothing else", c, rigChunks*rigPerChunk)
	}
}

func said(all []Event) string {
	var b strings.Builder
	Lines{&b}.tellAll(all)
	return b.String()
}

func (l Lines) tellAll(all []Event) {
	for _, e := range all {
		l.Tell(e)
	}
}

// lateness is what the authority says of itself.
func (r *rig) lateness() time.Duration {
	r.t.Helper()
	a, err := authority.Open(context.Background(), AuthorityURL(r.dir))
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Close()
	timing, ok := a.(authority.Timing)
	if !ok {
		r.t.Fatal(errors.New("the authority does not say how late it may be"))
	}
	return timing.Lateness()
}
