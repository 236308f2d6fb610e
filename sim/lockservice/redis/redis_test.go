package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

const sec = time.Second

func TestAFailoverOfACacheRepeatsTheToken(t *testing.T) {
	for _, c := range []struct {
		dies   time.Duration
		lag    time.Duration
		want   fence.Token
		refuse bool
	}{
		{40250 * time.Millisecond, 100 * time.Millisecond, 15, false}, // before the replica had it: the same token
		{40350 * time.Millisecond, 100 * time.Millisecond, 0, true},   // after: the lock is still held
		{40250 * time.Millisecond, 0, 0, true},                        // a replica without a lag has it at once
	} {
		w := world.New(1)
		cache := NewCache(w, CacheConfig{Counter: 14, Lag: c.lag})
		C, D := w.Machine("C"), w.Machine("D")
		var got []fence.Token
		var refused error
		acquire := func(m *world.Machine, nonce string) func() {
			return func() {
				cache.Do(m, protocol.Ask{Op: protocol.OpAcquire, Name: "billing", Nonce: nonce, Length: 10 * sec}, func(r protocol.Reply) {
					if refused = r.Err; r.Err == nil {
						got = append(got, r.Grant.Token)
					}
				})
			}
		}
		w.At(40200*time.Millisecond, world.OrderTimer, acquire(C, "c"))
		w.At(c.dies, world.OrderFault, cache.Primary().Crash)
		w.At(41*sec, world.OrderFault, cache.Promote)
		w.At(42*sec, world.OrderTimer, acquire(D, "d"))
		w.Run(43 * sec)
		_, held := refused.(*authority.HeldError)
		if held != c.refuse || got[0] != 15 || !c.refuse && (len(got) != 2 || got[1] != c.want) {
			t.Errorf("primary dies at %v, lag %v: tokens %v, refused %v", c.dies, c.lag, got, refused)
		}
	}
}

func TestACacheKeepsALeaseForItsHolder(t *testing.T) {
	w := world.New(1)
	cache := NewCache(w, CacheConfig{Lag: 100 * time.Millisecond})
	a := w.Machine("A")
	do := func(ask protocol.Ask) (r protocol.Reply) {
		r.Err = fmt.Errorf("no answer")
		ask.Name, ask.Length = "job", 10*sec
		cache.Do(a, ask, func(x protocol.Reply) { r = x })
		w.Run(w.Now())
		return r
	}
	first := do(protocol.Ask{Op: protocol.OpAcquire, Nonce: "a"})
	if again := do(protocol.Ask{Op: protocol.OpAcquire, Nonce: "a"}); again.Grant != first.Grant || first.Grant.Token != 1 {
		t.Errorf("acquired %v, then %v", first, again)
	}
	w.Run(9 * sec)
	if r := do(protocol.Ask{Op: protocol.OpRenew, Grant: first.Grant.Grant}); r.Err != nil {
		t.Errorf("renewal: %v", r.Err)
	}
	w.Run(18 * sec)
	if r := do(protocol.Ask{Op: protocol.OpAcquire, Nonce: "b"}); r.Err == nil {
		t.Error("a second holder at 18, renewed at 9")
	}
	if r := do(protocol.Ask{Op: protocol.OpRelease, Grant: fence.Grant{Token: 1, Nonce: "b"}}); r.Err == nil {
		t.Error("released by another")
	}
	w.Run(19 * sec)
	if r := do(protocol.Ask{Op: protocol.OpAcquire, Nonce: "b"}); r.Grant.Token != 2 {
		t.Errorf("at 19 the lease is over: %v", r)
	}
	if r := do(protocol.Ask{Op: protocol.OpRelease, Grant: fence.Grant{Token: 2, Nonce: "b"}}); r.Err != nil || cache.State("job").Held {
		t.Errorf("release: %v", r.Err)
	}
	cache.Primary().Crash()
	if r := do(protocol.Ask{Op: protocol.OpInspect}); r.Err != ErrDown {
		t.Errorf("down: %v", r.Err)
	}
}

func TestAPlainDeleteReleasesAnothersLock(t *testing.T) {
	for _, without := range []protocol.Rules{0, protocol.RuleConditional} {
		w := world.New(1)
		cache := NewCache(w, CacheConfig{Lag: 100 * time.Millisecond, Without: without})
		a := w.Machine("A")
		cache.Do(a, protocol.Ask{Op: protocol.OpAcquire, Name: "job", Nonce: "b", Length: 10 * sec}, func(protocol.Reply) {})
		cache.Do(a, protocol.Ask{Op: protocol.OpRelease, Name: "job", Grant: fence.Grant{Token: 7, Nonce: "a"}}, func(protocol.Reply) {})
		w.Run(sec)
		if held := cache.State("job").Held; held != (without == 0) {
			t.Errorf("without %v: held %v", without, held)
		}
	}
}

// redlock is five masters, and two clients that reach three of them each.
func redlock(persist bool) (w *world.World, r *Redlock, acquire func(client string, masters ...int) protocol.Counted) {
	w = world.New(1)
	r = NewRedlock(w, RedlockConfig{Persist: persist})
	acquire = func(client string, masters ...int) (res protocol.Counted) {
		m := w.Find(client)
		if m == nil {
			m = w.Machine(client)
		}
		r.Acquire(m, "job", "value of "+client, 10*sec, masters, func(x protocol.Counted) { res = x })
		w.Run(w.Now() + 100*time.Millisecond)
		return res
	}
	return w, r, acquire
}

func TestAClockJumpGivesRedlockTwoMajorities(t *testing.T) {
	_, r, acquire := redlock(false)
	first := acquire("client1", 1, 2, 3)
	if !first.Held || first.Validity != 10*sec || fmt.Sprint(first.Got) != "[1 2 3]" {
		t.Fatalf("client 1: %+v", first)
	}
	if res := acquire("client2", 3, 4, 5); res.Held || fmt.Sprint(r.Holds("job", "value of client2")) != "[]" {
		t.Fatalf("client 2 got a second majority without a clock's help: %+v", res)
	}
	r.Machines()[2].Wall.Jump(11 * sec)
	second := acquire("client2", 3, 4, 5)
	if !second.Held || fmt.Sprint(second.Got) != "[3 4 5]" {
		t.Errorf("client 2: %+v", second)
	}
	if got := fmt.Sprint(r.Holds("job", "value of client1"), r.Holds("job", "value of client2")); got != "[1 2] [3 4 5]" {
		t.Errorf("held: %s", got)
	}
}

func TestARestartGivesRedlockTwoMajoritiesUnlessItPersists(t *testing.T) {
	for _, persist := range []bool{false, true} {
		w, r, acquire := redlock(persist)
		acquire("client1", 1, 2, 3)
		m := r.Machines()[2]
		m.Crash()
		w.Run(w.Now() + sec)
		m.Restart()
		if res := acquire("client2", 3, 4, 5); res.Held == persist {
			t.Errorf("persist %v: client 2: %+v", persist, res)
		}
	}
}

func TestRedlockCountsTheTimeThatAcquiringTook(t *testing.T) {
	w, r, acquire := redlock(false)
	w.Net.Default.Delay = 20 * time.Millisecond
	r.Machines()[0].Crash()
	c := w.Machine("client1")
	w.Net.Cut(c, r.Machines()[1]) // never answers: the client waits for its timeout
	res := acquire("client1")
	if !res.Held || fmt.Sprint(res.Got) != "[3 4 5]" || res.Validity != 10*sec-50*time.Millisecond {
		t.Errorf("%+v", res)
	}
	w.Net.Cut(c, r.Machines()[2])
	r.Release(c, "job", "value of client1")
	w.Run(w.Now() + sec)
	if res := acquire("client1"); res.Held || res.Validity != 0 {
		t.Errorf("with two masters: %+v", res)
	}
	w.Run(w.Now() + sec)
	if held := r.Holds("job", "value of client1"); fmt.Sprint(held) != "[3]" {
		t.Errorf("after the failure: kept by %v, want only the one that could not be reached", held)
	}
}
