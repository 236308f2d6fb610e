package stint

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/clock"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/internal/scenario"
)

// TestRuntimeGivesTheSameTranscripts runs every scenario through the client, its
// loop and its goroutines, and wants the bytes that the virtual driver gave: what
// a simulator proves of the machine then holds for what users run. A renewal
// that goes out in a round of its own is no exception, nor is a request that no
// goroutine of the client waits for.
func TestRuntimeGivesTheSameTranscripts(t *testing.T) {
	files, err := filepath.Glob("internal/scenario/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, w := range ways {
				synctest.Test(t, func(t *testing.T) { got = playScenario(t, s, w) })
				if got != s.Want {
					t.Errorf("%s, %+v\nruntime:\n%s\nfile:\n%s", s.Title, w, got, s.Want)
				}
			}
		})
	}
}

// TestRuntimeGivesTheSameTranscriptsOfRandomWorlds does so for scenarios that
// nobody wrote.
func TestRuntimeGivesTheSameTranscriptsOfRandomWorlds(t *testing.T) {
	for seed := range uint64(400) {
		s := scenario.Random(seed)
		want := scenario.Run(s)
		var got string
		synctest.Test(t, func(t *testing.T) { got = playScenario(t, s, ways[seed%uint64(len(ways))]) })
		if got != want {
			t.Fatalf("seed %d\n%+v\nruntime:\n%s\nvirtual:\n%s", seed, s, got, want)
		}
	}
}

// timeline is the time of a synctest bubble.
type timeline struct{ clock.Clock }

func (timeline) After(d time.Duration, f func()) { time.AfterFunc(d, f) }

// player performs a script's steps on a client.
type player struct {
	t      *testing.T
	client *Client
	world  *scenario.World
	ctx    context.Context
	cancel context.CancelCauseFunc
	try    bool
	lease  atomic.Pointer[Lease]
	paused atomic.Int64
}

// inRounds renews in rounds what inner renews one by one.
type inRounds struct{ authority.Authority }

type queueInRounds struct {
	inRounds
	authority.Queuer
}

func (a inRounds) RenewAll(ctx context.Context, grants []authority.Grant) []authority.Renewal {
	answers := make([]authority.Renewal, len(grants))
	for i, g := range grants {
		answers[i].Grant, answers[i].Err = a.Renew(ctx, g)
	}
	return answers
}

// starting answers what inner answers, and keeps nobody waiting.
type starting struct{ inner authority.Authority }

func (s starting) StartAcquire(ctx context.Context, r authority.Request, answered func(authority.Grant, error)) {
	go func() { answered(s.inner.Acquire(ctx, r)) }()
}

func (s starting) StartRelease(ctx context.Context, g authority.Grant, answered func(error)) {
	go func() { answered(s.inner.Release(ctx, g)) }()
}

func asBulk(a authority.Authority) authority.Authority {
	if q, ok := a.(authority.Queuer); ok {
		return queueInRounds{inRounds{a}, q}
	}
	return inRounds{a}
}

// way is which of the optional parts of an authority the client finds.
type way struct{ bulk, starter bool }

var ways = []way{{false, false}, {true, false}, {false, true}, {true, true}}

func playScenario(t *testing.T, s scenario.Script, w way) string {
	c := clock.Process()
	world := scenario.NewWorld(s, timeline{c})
	o := Options{
		TTL: s.Times.Length, Margin: s.Times.Margin, Renew: s.Times.Renew, Timeout: s.Times.Timeout,
		Wait: s.Wait, BeatWithin: s.BeatWithin,
	}
	o, err := o.Effective()
	if err != nil {
		t.Fatal(err)
	}
	a := world.Authority()
	if w.bulk {
		a = asBulk(a)
	}
	rt, err := newRuntime(a, c)
	if err != nil {
		t.Fatal(err)
	}
	if w.starter {
		rt.starter = starting{a}
	}
	p := &player{t: t, world: world, try: s.Try}
	p.client = clientOf(rt, o, func() string { return scenario.Prefix })
	p.ctx, p.cancel = context.WithCancelCause(t.Context())
	rt.settle = func() {
		synctest.Wait()
		if rest := authority.Instant(p.paused.Load()).Sub(c.Now()); rest > 0 { // the process stands still
			time.Sleep(rest)
			synctest.Wait()
		}
	}
	var transcript scenario.Transcript
	var closing atomic.Bool
	rt.trace = func(_ *Lease, now authority.Instant, ev protocol.Event, effects []protocol.Effect) {
		if !closing.Load() {
			transcript.Record(now, ev, effects)
		}
	}
	go rt.loop()
	for _, step := range s.Steps {
		time.AfterFunc(step.At, func() { p.do(step, c.Now()) })
	}
	time.Sleep(s.Until)
	closing.Store(true)
	_ = p.client.Close()
	time.Sleep(time.Hour) // what the network still carries
	return transcript.String()
}

func (p *player) do(s scenario.Step, now authority.Instant) {
	if p.world.Do(s) {
		return
	}
	switch s.What {
	case "start":
		acquire := p.client.Acquire
		if p.try {
			acquire = p.client.TryAcquire
		}
		l, err := acquire(p.ctx, "job")
		if err == nil {
			p.lease.Store(l)
		}
	case "cancel":
		p.cancel(scenario.ErrCause)
	case "pause":
		p.paused.Store(int64(now.Add(s.For)))
	case "beat":
		if l := p.lease.Load(); l != nil {
			l.Beat()
		}
	case "release":
		if l := p.lease.Load(); l != nil {
			_ = l.Release(context.Background())
		}
	}
}
