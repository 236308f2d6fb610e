package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
)

// hooked calls after when a token was found good, before the gate hears of it.
type hooked struct {
	fence.Fence
	after func(ctx context.Context, token fence.Token)
}

func (h hooked) Check(ctx context.Context, c fence.Claim) error {
	err := h.Fence.Check(ctx, c)
	if err == nil {
		h.after(ctx, c.Grant.Token)
	}
	return err
}

func TestOneThatIsBeingAdmittedIsWaitedForToo(t *testing.T) {
	m := fence.NewMemory()
	if _, err := m.Raise(t.Context(), job, grant(7)); err != nil {
		t.Fatal(err)
	}
	var g *gate.Gate
	result, inside := make(chan error, 1), make(chan struct{})
	g = open(t, hooked{m, func(ctx context.Context, token fence.Token) {
		if token != 7 {
			return
		}
		go func() {
			p, err := g.Enter(context.Background(), job, grant(12))
			close(inside)
			if err == nil {
				p.Leave()
			}
			result <- err
		}()
		select {
		case <-ctx.Done(): // 12 has found 7, and waits for it
		case <-inside:
			t.Error("12 is inside, and 7 was found good")
		}
	}}, gate.Options{Drain: patience})
	if _, err := g.Enter(t.Context(), job, grant(7)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("7 was told %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("12: %v", err)
	}
}

// TestACheckThatALaterOneEndsSaysWhoCame, whatever the fence had said before.
func TestACheckThatALaterOneEndsSaysWhoCame(t *testing.T) {
	var ask func(context.Context)
	f := hooked{fence.NewMemory(), func(ctx context.Context, _ fence.Token) {
		if ask != nil {
			ask(ctx)
		}
	}}
	g := open(t, f, gate.Options{Drain: patience})
	p7 := enter(t, g, 7)
	result := make(chan error, 1)
	ask = func(ctx context.Context) {
		ask = nil
		go func() {
			defer p7.Leave()
			<-p7.Context().Done()
		}()
		p, err := g.Enter(ctx, job, grant(12))
		if err == nil {
			p.Leave()
		}
		result <- err
	}
	if err := p7.Check(t.Context()); !errors.Is(err, fence.ErrStale) {
		t.Errorf("7 was told %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("12: %v", err)
	}
}

func TestAPanicOfTheFenceKeepsNobodyOut(t *testing.T) {
	panics := true
	g := open(t, hooked{fence.NewMemory(), func(context.Context, fence.Token) {
		if panics {
			panic("a driver's bug")
		}
	}}, gate.Options{Drain: time.Millisecond})
	func() {
		defer func() { _ = recover() }() // as net/http does
		enter(t, g, 7).Leave()           // raised; the next one is looked up
		_, err := g.Enter(t.Context(), job, grant(7))
		t.Errorf("no panic, and %v", err)
	}()
	panics = false
	enter(t, g, 12).Leave()
}

// TestNoHandlerEverRunsBesideALaterOne sends requests of rising tokens, late ones
// among them, and looks at who is inside together.
func TestNoHandlerEverRunsBesideALaterOne(t *testing.T) {
	for name, o := range map[string]gate.Options{
		"ended":      {Drain: patience},
		"let finish": {Drain: patience, LetFinish: true},
	} {
		t.Run(name, func(t *testing.T) { storm(t, o) })
	}
}

// slow gives way between the answer of the fence and its receipt, where a later
// holder may come in.
type slow struct{ fence.Fence }

func (s slow) Check(ctx context.Context, c fence.Claim) error {
	err := s.Fence.Check(ctx, c)
	give(20)
	return err
}

// give lets others go first, up to so many times.
func give(times int) {
	for range rand.N(times) {
		runtime.Gosched()
	}
}

func storm(t *testing.T, o gate.Options) {
	g := open(t, slow{fence.NewMemory()}, o)
	var mu sync.Mutex
	inside := map[fence.Token]int{}
	var last atomic.Int64
	var all sync.WaitGroup
	ran, ended := 0, fence.Token(0)
	for range 8 {
		all.Go(func() {
			for range 400 {
				token := fence.Token(max(1, last.Add(rand.N[int64](9)/8)-rand.N[int64](4)))
				p, err := g.Enter(context.Background(), job, grant(token))
				if err != nil {
					if !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				ran++
				inside[token]++
				if ended > token {
					t.Errorf("%d begins after %d has ended", token, ended)
				}
				for other := range inside {
					if other < token {
						t.Errorf("%d begins while %d runs", token, other)
					}
				}
				mu.Unlock()
				give(100)
				mu.Lock()
				ended = max(ended, token)
				if inside[token]--; inside[token] == 0 {
					delete(inside, token)
				}
				mu.Unlock()
				p.Leave()
			}
		})
	}
	all.Wait()
	if ran < 100 {
		t.Errorf("only %d requests ran", ran)
	}
}
