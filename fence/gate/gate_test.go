package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const job = "billing"

func grant(t fence.Token) fence.Grant { return fence.Grant{Token: t, Nonce: fmt.Sprintf("n%d", t)} }

func open(t *testing.T, f fence.Fence, o gate.Options) *gate.Gate {
	t.Helper()
	g, err := gate.New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func enter(t *testing.T, g *gate.Gate, token fence.Token) *gate.Pass {
	t.Helper()
	p, err := g.Enter(t.Context(), job, grant(token))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// patience bounds the wait for what must happen.
const patience = 30 * time.Second

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("in vain: %s", what)
	}
}

func TestALowerTokenIsNotLetIn(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{})
	enter(t, g, 7).Leave()
	p := enter(t, g, 12)
	defer p.Leave()
	c, ok := gate.FromContext(p.Context())
	if !ok || c.Name != job || c.Grant != grant(12) {
		t.Errorf("the handler is given %v, %v", c, ok)
	}
	_, err := g.Enter(t.Context(), job, grant(7))
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Presented != 7 || stale.Fence != 12 {
		t.Errorf("token 7 after 12: %v", err)
	}
	if _, err := g.Enter(t.Context(), job, fence.Grant{Token: 12, Nonce: "other"}); !errors.Is(err, fence.ErrRepeated) {
		t.Errorf("another grant of the same number: %v", err)
	}
}

// counted counts the calls of a fence.
type counted struct {
	fence.Fence
	checks, raises atomic.Int64
	fail           error
}

func (c *counted) Check(ctx context.Context, claim fence.Claim) error {
	c.checks.Add(1)
	if c.fail != nil {
		return c.fail
	}
	return c.Fence.Check(ctx, claim)
}

func (c *counted) Raise(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	c.raises.Add(1)
	return c.Fence.Raise(ctx, name, g)
}

func TestAGrantIsRaisedOnceAndThenOnlyLookedUp(t *testing.T) {
	m := fence.NewMemory()
	f := &counted{Fence: m}
	g := open(t, f, gate.Options{})
	for range 3 {
		enter(t, g, 7).Leave()
	}
	if f.checks.Load() != 3 || f.raises.Load() != 1 {
		t.Errorf("%d looks and %d raises", f.checks.Load(), f.raises.Load())
	}
	// A job that is done is not marked RUNNING again by a request that comes late.
	if err := m.Finish(t.Context(), fence.Claim{Name: job, Grant: grant(7)}); err != nil {
		t.Fatal(err)
	}
	enter(t, g, 7).Leave()
	if r, err := m.Row(t.Context(), job); err != nil || r.State != fence.Done {
		t.Errorf("the job is %s, %v", r.State, err)
	}
}

func TestCheckOnlyNeverRaises(t *testing.T) {
	m := fence.NewMemory()
	g := open(t, m, gate.Options{CheckOnly: true})
	if _, err := g.Enter(t.Context(), job, grant(7)); !errors.Is(err, fence.ErrNoFence) {
		t.Errorf("before any raise: %v", err)
	}
	for _, raised := range []fence.Token{5, 7} {
		if _, err := m.Raise(t.Context(), job, grant(raised)); err != nil {
			t.Fatal(err)
		}
		p, err := g.Enter(t.Context(), job, grant(7))
		if raised == 7 && err == nil {
			p.Leave()
		} else if !errors.Is(err, fence.ErrNotRaised) {
			t.Errorf("raised to %d: %v", raised, err)
		}
	}
}

func TestAFenceThatFailsLetsNobodyIn(t *testing.T) {
	broken := errors.New("the disk is gone")
	g := open(t, &counted{Fence: fence.NewMemory(), fail: broken}, gate.Options{Drain: time.Second})
	if _, err := g.Enter(t.Context(), job, grant(7)); !errors.Is(err, broken) {
		t.Errorf("let in with %v", err)
	}
}

// TestAFenceInMemoryForgetsAtARestart shows a known limit, and why it is said.
func TestAFenceInMemoryForgetsAtARestart(t *testing.T) {
	enter(t, open(t, fence.NewMemory(), gate.Options{}), 12).Leave()
	enter(t, open(t, fence.NewMemory(), gate.Options{}), 7).Leave()
}

// TestAdmissionAloneDoesNotOrderEffects shows the gap that drain and InTx close:
// 7 admitted, 12 admitted and done, then 7's effect lands.
func TestAdmissionAloneDoesNotOrderEffects(t *testing.T) {
	m := fence.NewMemory()
	g := open(t, m, gate.Options{})
	var file []fence.Token // a resource that checks no token
	p7 := enter(t, g, 7)
	defer p7.Leave()
	p12 := enter(t, g, 12)
	file = append(file, 12)
	p12.Leave()
	file = append(file, 7)
	if fmt.Sprint(file) != "[12 7]" || p7.Context().Err() != nil {
		t.Errorf("the effects are in the order %v", file)
	}
	// The same write is refused where it is admitted in its own atomic step.
	c, _ := gate.FromContext(p7.Context())
	if err := m.Do(t.Context(), c, func() error { t.Error("written"); return nil }); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the write of 7 after 12: %v", err)
	}
	if err := p7.Check(t.Context()); !errors.Is(err, fence.ErrStale) {
		t.Errorf("asked again, token 7: %v", err)
	}
}

func TestDrainEndsEarlierHandlersBeforeALaterOneBegins(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{Drain: patience})
	var mu sync.Mutex
	var file []fence.Token
	write := func(token fence.Token) {
		mu.Lock()
		defer mu.Unlock()
		file = append(file, token)
	}
	p7, also7 := enter(t, g, 7), enter(t, g, 7)
	var all sync.WaitGroup
	for _, p := range []*gate.Pass{p7, also7} {
		all.Go(func() {
			defer p.Leave()
			<-p.Context().Done() // in the midst of its work
			write(7)
		})
	}
	p12 := enter(t, g, 12)
	write(12)
	p12.Leave()
	all.Wait()
	if fmt.Sprint(file) != "[7 7 12]" {
		t.Errorf("the effects are in the order %v", file)
	}
	var stale *fence.StaleError
	if err := p7.Overtaken(); !errors.As(err, &stale) || stale.Presented != 7 || stale.Fence != 12 {
		t.Errorf("7 was ended because of %v", err)
	}
	if p12.Overtaken() != nil {
		t.Errorf("12 was ended too: %v", p12.Overtaken())
	}
}

func TestLetFinishOnlyWaits(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{Drain: patience, LetFinish: true})
	p7 := enter(t, g, 7)
	in := make(chan struct{})
	go func() {
		defer close(in)
		p, err := g.Enter(context.Background(), job, grant(12))
		if err != nil {
			t.Error(err)
			return
		}
		p.Leave()
	}()
	// 12 stands in the fence and waits once 7 is refused.
	for started := time.Now(); p7.Check(t.Context()) == nil; time.Sleep(time.Millisecond) {
		if time.Since(started) > patience {
			t.Fatal("12 does not come")
		}
	}
	if p7.Context().Err() != nil {
		t.Errorf("7 was ended: %v", context.Cause(p7.Context()))
	}
	select {
	case <-in:
		t.Fatal("12 came in beside 7")
	default:
	}
	p7.Leave()
	await(t, "12 comes in when 7 has left", in)
}

func TestAHandlerThatIgnoresItsEndIsNeverOvertaken(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{Drain: time.Millisecond})
	p7 := enter(t, g, 7)
	for range 2 {
		_, err := g.Enter(t.Context(), job, grant(12))
		var busy *gate.BusyError
		if !errors.As(err, &busy) || busy.Name != job || busy.Token != 12 || fmt.Sprint(busy.Running) != "[7]" {
			t.Fatalf("beside a handler that does not end: %v", err)
		}
		for _, w := range []string{"was not run", "Repeat it", "ignores the end of its context"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the error does not say %q: %v", w, err)
			}
		}
	}
	// Nobody of the earlier token follows it in, and another name is not touched.
	if _, err := g.Enter(t.Context(), job, grant(7)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("another request of 7: %v", err)
	}
	other, err := g.Enter(t.Context(), "report", grant(12))
	if err != nil {
		t.Fatal(err)
	}
	other.Leave()
	p7.Leave()
	enter(t, g, 12).Leave()
}

func TestAWaitEndsWithItsRequest(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{Drain: patience})
	p7 := enter(t, g, 7)
	defer p7.Leave()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client went away")
	context.AfterFunc(p7.Context(), func() { cancel(gone) }) // 12 waits by now
	if _, err := g.Enter(ctx, job, grant(12)); !errors.Is(err, gone) {
		t.Errorf("the wait ended with %v", err)
	}
}

func TestOneThatWaitsIsOvertakenToo(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{Drain: patience})
	p7 := enter(t, g, 7)
	results := map[fence.Token]chan error{12: make(chan error, 1), 30: make(chan error, 1)}
	begin := func(token fence.Token) {
		go func() {
			p, err := g.Enter(context.Background(), job, grant(token))
			if err == nil {
				p.Leave()
			}
			results[token] <- err
		}()
	}
	begin(12)
	await(t, "12 has ended 7 and waits", p7.Context().Done())
	begin(30)
	if err := <-results[12]; !errors.Is(err, fence.ErrStale) { // while 7 is still inside
		t.Errorf("12 was told %v", err)
	}
	p7.Leave()
	if err := <-results[30]; err != nil {
		t.Errorf("30: %v", err)
	}
}

func TestBadSettingsAreNamedTogether(t *testing.T) {
	_, err := gate.New(nil, gate.Options{Drain: -1})
	for _, w := range []string{"fence is nil", "negative"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	if _, err := gate.New(fence.NewMemory(), gate.Options{LetFinish: true}); err == nil {
		t.Error("LetFinish without Drain was accepted")
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	g := open(t, fence.NewMemory(), gate.Options{})
	if _, err := g.Enter(t.Context(), "", grant(7)); err == nil {
		t.Error("an empty name was let in")
	}
	if _, err := g.Enter(t.Context(), job, fence.Grant{Token: 7}); err == nil {
		t.Error("a grant without a nonce was let in")
	}
}
