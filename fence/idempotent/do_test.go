package idempotent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/idempotent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "invoice/4711"

// bank is a remote side.
type bank struct {
	keys  bool
	mu    sync.Mutex
	paid  int
	known map[string]bool
}

func (b *bank) pay(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.keys || !b.known[key] {
		b.paid++
	}
	b.known = map[string]bool{key: true}
	return "receipt"
}

func (b *bank) times() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paid
}

// cutter does something at the nth moment of a run: there is one before and one
// after each request.
type cutter struct {
	idempotent.Store
	bank *bank
	n    int
	cut  func() error
	mu   sync.Mutex
	seen int
}

func (c *cutter) moment() error {
	c.mu.Lock()
	c.seen++
	now := c.seen == c.n
	c.mu.Unlock()
	if now {
		return c.cut()
	}
	return nil
}

func (c *cutter) Get(ctx context.Context, key string) (idempotent.Record, error) {
	if err := c.moment(); err != nil {
		return idempotent.Record{}, err
	}
	r, err := c.Store.Get(ctx, key)
	return r, errors.Join(err, c.moment())
}

func (c *cutter) Set(ctx context.Context, claim fence.Claim, key string, was, now idempotent.Record) error {
	if err := c.moment(); err != nil {
		return err
	}
	if err := c.Store.Set(ctx, claim, key, was, now); err != nil {
		return err
	}
	return c.moment()
}

func (c *cutter) call(_ context.Context, key string) (string, error) {
	if err := c.moment(); err != nil {
		return "", err
	}
	return c.bank.pay(key), c.moment()
}

// kind is a remote side, and how one finds out.
type kind struct {
	name         string
	keys, lookup bool
}

var kinds = []kind{{"takes keys", true, false}, {"takes none", false, false}, {"takes none, and tells", false, true}}

// world is a store, a bank, and what one holder after another makes of them.
type world struct {
	t    *testing.T
	kind kind
	f    *fence.Memory
	s    idempotent.Store
	bank *bank
	// dead: whoever was cut off will never go on, so the lookup may say NeverWill.
	dead bool
}

func newWorld(t *testing.T, k kind, dead bool) *world {
	f := fence.NewMemory()
	return &world{t: t, kind: k, f: f, s: idempotent.NewMemory(f), bank: &bank{keys: k.keys}, dead: dead}
}

func (w *world) raise(token fence.Token) fence.Claim {
	w.t.Helper()
	c, err := w.f.Raise(w.t.Context(), "payments", fence.Grant{Token: token, Nonce: fmt.Sprintf("n%d", token)})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) effect(call func(context.Context, string) (string, error), timeout time.Duration) idempotent.Effect {
	e := idempotent.Effect{Key: key, Call: call, TakesKeys: w.kind.keys, Timeout: timeout}
	if w.kind.lookup {
		e.Lookup = func(context.Context, string) (idempotent.Answer, string, error) {
			switch {
			case w.bank.times() > 0:
				return idempotent.Happened, "receipt", nil
			case w.dead:
				return idempotent.NeverWill, "", nil
			}
			return idempotent.Unclear, "", nil
		}
	}
	return e
}

// plain pays as a holder whom nothing happens to.
func (w *world) plain(c fence.Claim) (idempotent.Outcome, error) {
	return idempotent.Do(w.t.Context(), w.s, c, w.effect(func(_ context.Context, key string) (string, error) { return w.bank.pay(key), nil }, 30*time.Millisecond))
}

// right says what must hold of an outcome.
func (w *world) right(what string, out idempotent.Outcome, err error) {
	w.t.Helper()
	paid := w.bank.times()
	if paid > 1 {
		w.t.Fatalf("%s: paid %d times", what, paid)
	}
	switch {
	case out.State == idempotent.Done && paid == 1 && (err == nil || errors.Is(err, idempotent.ErrUnrecorded)):
	case out.State == idempotent.None && errors.Is(err, idempotent.ErrNotDone) && paid == 0:
	case (out.State == idempotent.Unknown || out.State == idempotent.Pending) && (errors.Is(err, fence.ErrUnknown) || errors.Is(err, fence.ErrStale)):
	case out.State == idempotent.None && errors.Is(err, fence.ErrStale): // it did nothing
	default:
		w.t.Errorf("%s: paid %d times, outcome %v, %v", what, paid, out, err)
	}
}

// forEveryMoment runs a test for every kind and moment, until a run has no such
// moment any more; in virtual time, so that no time-out ends for a busy machine.
func forEveryMoment(t *testing.T, test func(t *testing.T, k kind, n int) (reached bool)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			n := 1
			for reached := true; reached; n++ {
				synctest.Test(t, func(t *testing.T) { reached = test(t, k, n) })
			}
			n--
			if n < 9 { // look, note, call, note: two moments each
				t.Errorf("only %d moments", n-1)
			}
		})
	}
}

func TestACrashAtAnyStepNeverPaysTwice(t *testing.T) {
	forEveryMoment(t, func(t *testing.T, k kind, n int) (reached bool) {
		w := newWorld(t, k, true)
		c := &cutter{Store: w.s, bank: w.bank, n: n, cut: func() error { panic("crash") }}
		claim := w.raise(7)
		func() {
			defer func() { reached = recover() != nil }()
			_, _ = idempotent.Do(t.Context(), c, claim, w.effect(c.call, time.Hour))
		}()
		claim = w.raise(12)
		out, err := w.plain(claim)
		w.right(fmt.Sprintf("moment %d", n), out, err)
		if (k.keys || k.lookup) && (out.State != idempotent.Done || w.bank.times() != 1) {
			t.Errorf("moment %d: paid %d times, %v, %v", n, w.bank.times(), out, err)
		}
		again, err := w.plain(claim)
		w.right(fmt.Sprintf("moment %d, again", n), again, err)
		if again.State != out.State || !again.Before {
			t.Errorf("moment %d: %v became %v", n, out, again)
		}
		return reached
	})
}

func TestALostAnswerAtAnyStepNeverPaysTwice(t *testing.T) {
	forEveryMoment(t, func(t *testing.T, k kind, n int) (reached bool) {
		w := newWorld(t, k, true)
		c := &cutter{Store: w.s, bank: w.bank, n: n, cut: func() error { reached = true; return errors.New("connection reset") }}
		out, err := idempotent.Do(t.Context(), c, w.raise(7), w.effect(c.call, 30*time.Millisecond))
		w.right(fmt.Sprintf("moment %d", n), out, err)
		if k.keys && (out.State != idempotent.Done || err != nil) {
			t.Errorf("moment %d: %v, %v", n, out, err)
		}
		if k.lookup && out.State == idempotent.Unknown { // there is nothing left to find out
			t.Errorf("moment %d: paid %d times, and left to a person: %v", n, w.bank.times(), err)
		}
		return reached
	})
}

func TestAHolderPausedAtAnyStepNeverPaysTwice(t *testing.T) {
	forEveryMoment(t, func(t *testing.T, k kind, n int) (reached bool) {
		w := newWorld(t, k, false)
		paused, on := make(chan struct{}), make(chan struct{})
		c := &cutter{Store: w.s, bank: w.bank, n: n, cut: func() error { close(paused); <-on; return nil }}
		type end struct {
			out idempotent.Outcome
			err error
		}
		ended := make(chan end, 1)
		claim := w.raise(7)
		go func() {
			out, err := idempotent.Do(context.Background(), c, claim, w.effect(c.call, time.Hour))
			ended <- end{out, err}
		}()
		select {
		case <-paused:
			reached = true
		case e := <-ended:
			w.right("not paused", e.out, e.err)
			return false
		}
		out, err := w.plain(w.raise(12))
		w.right(fmt.Sprintf("moment %d, successor", n), out, err)
		close(on)
		e := <-ended
		w.right(fmt.Sprintf("moment %d, woken", n), e.out, e.err)
		return reached
	})
}

func TestARefusalIsTakenBackAndMayBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds[1], true)
		c := w.raise(7)
		out, err := idempotent.Do(t.Context(), w.s, c, w.effect(func(context.Context, string) (string, error) {
			return "", fmt.Errorf("card expired: %w", idempotent.ErrNotDone)
		}, time.Second))
		if out.State != idempotent.None || !errors.Is(err, idempotent.ErrNotDone) || !strings.Contains(err.Error(), "card expired") {
			t.Errorf("refused: %v, %v", out, err)
		}
		if out, err := w.plain(c); out.State != idempotent.Done || out.Result != "receipt" || err != nil {
			t.Errorf("again: %v, %v", out, err)
		}
	})
}

func TestNothingIsBegunAfterTheStopTime(t *testing.T) {
	w := newWorld(t, kinds[0], true)
	left := time.Hour
	ctx := fence.WithTimeLeft(t.Context(), func() time.Duration { return left })
	c := w.raise(7)
	// The process sleeps between the record and the call.
	s := &cutter{Store: w.s, bank: w.bank, n: 4, cut: func() error { left = -1; return nil }}
	out, err := idempotent.Do(ctx, s, c, w.effect(s.call, time.Second))
	if out.State != idempotent.None || !errors.Is(err, idempotent.ErrLeaseOver) || w.bank.times() != 0 {
		t.Errorf("%v, %v, paid %d times", out, err, w.bank.times())
	}
	if r, err := w.s.Get(t.Context(), key); err != nil || r.State != idempotent.None {
		t.Errorf("what was never asked for is left as %v, %v", r, err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lease lost")
	cancel(lost)
	if out, err := idempotent.Do(ended, w.s, c, w.effect(s.call, time.Second)); out.State != idempotent.None || !errors.Is(err, lost) {
		t.Errorf("after its end: %v, %v", out, err)
	}
}

// TestAPauseWhileTheTimeLeftIsReadIsNotAddedToIt: the stop time passes between the
// two clock reads from which it is known.
func TestAPauseWhileTheTimeLeftIsReadIsNotAddedToIt(t *testing.T) {
	w := newWorld(t, kinds[1], true)
	end := time.Now().Add(50 * time.Millisecond)
	ctx := fence.WithTimeLeft(t.Context(), func() time.Duration {
		left := time.Until(end)
		for time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
		return left
	})
	s := &cutter{Store: w.s, bank: w.bank}
	out, err := idempotent.Do(ctx, s, w.raise(7), w.effect(s.call, time.Second))
	if out.State != idempotent.None || !errors.Is(err, idempotent.ErrLeaseOver) || s.seen != 0 {
		t.Errorf("after the stop time %d requests were begun: %v, %v", s.seen, out, err)
	}
}

func TestACallUnderWayIsSettledWhenTheLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kinds[1], true)
		ctx, cancel := context.WithCancel(t.Context())
		out, err := idempotent.Do(ctx, w.s, w.raise(7), w.effect(func(call context.Context, key string) (string, error) {
			cancel()
			if call.Err() != nil {
				t.Error("the call was cut off")
			}
			return w.bank.pay(key), nil
		}, time.Second))
		if out.State != idempotent.Done || err != nil {
			t.Errorf("%v, %v", out, err)
		}
	})
}

func TestACallThatDoesNotEndIsUnknown(t *testing.T) {
	w := newWorld(t, kinds[1], true)
	on := make(chan struct{})
	e := w.effect(func(context.Context, string) (string, error) { <-on; return "", nil }, time.Second)
	e.CallTimeout = time.Millisecond
	out, err := idempotent.Do(t.Context(), w.s, w.raise(7), e)
	close(on)
	if out.State != idempotent.Unknown || !errors.Is(err, fence.ErrUnknown) || !strings.Contains(err.Error(), "person") {
		t.Errorf("%v, %v", out, err)
	}
}

func TestBadEffectsAreRefusedTogether(t *testing.T) {
	w := newWorld(t, kinds[0], true)
	lookup := func(context.Context, string) (idempotent.Answer, string, error) { return 0, "", nil }
	_, err := idempotent.Do(t.Context(), w.s, w.raise(7), idempotent.Effect{Timeout: -1, TakesKeys: true, Lookup: lookup})
	for _, word := range []string{"key", "no Call", "exclude", "negative"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
	if _, err := idempotent.NewSQL(nil, nil, idempotent.SQLOptions{Table: "a b"}); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("bad settings: %v", err)
	}
}
