package kv

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// rig is a server, and a client with two tasks.
type rig struct {
	w      *world.World
	s      *Server
	c      *Session
	a1, a2 *world.Machine
}

func newRig(without protocol.SharerRules) *rig {
	w := world.New(1)
	w.Log.Keep = true
	r := &rig{w: w, s: NewServer(w, w.Machine("n1")), a1: w.Machine("A1"), a2: w.Machine("A2")}
	r.a1.Mono.Jump(time.Second) // no clock begins at zero, which means never
	r.a2.Mono.Jump(time.Hour)   // tasks of one process share a clock, whatever the machines show
	r.c = NewSession(r.s, r.a1, Config{Client: "A", Length: 10 * time.Second, Margin: 2 * time.Second, Timeout: time.Second, Without: without})
	return r
}

// ask lets the world run until the answer is there, or for some time.
func (r *rig) ask(m *world.Machine, a protocol.Ask, within time.Duration) (got protocol.Answer, ok bool) {
	r.c.Do(m, a, func(answer protocol.Answer) { got, ok = answer, true })
	for until := r.w.Now() + within; !ok && r.w.Now() < until; {
		r.w.Run(r.w.Now() + 10*time.Millisecond)
	}
	return got, ok
}

func (r *rig) acquire(t *testing.T, m *world.Machine, name string) authority.Grant {
	t.Helper()
	a, ok := r.ask(m, protocol.Ask{Op: protocol.OpAcquire, Name: name, Nonce: m.Name + "-" + name, Holder: m.Name}, time.Second)
	if !ok || a.Err != nil {
		t.Fatalf("%s does not get %s: %v", m.Name, name, a.Err)
	}
	return a.Grant
}

func (r *rig) renew(t *testing.T, m *world.Machine, g authority.Grant) (authority.Grant, error) {
	t.Helper()
	a, ok := r.ask(m, protocol.Ask{Op: protocol.OpRenew, Name: g.Name, Grant: g.Grant}, 5*time.Second)
	if !ok {
		t.Fatalf("the renewal of %s has no answer", g.Name)
	}
	return a.Grant, a.Err
}

// TestAllComparisonsComeBeforeTheFirstWrite: as in etcd, which is why a name may
// stand once in a transaction.
func TestAllComparisonsComeBeforeTheFirstWrite(t *testing.T) {
	r := newRig(0)
	lease := r.s.grant("A", 10*time.Second)
	c := create{client: "A", name: "x", nonce: "1", lease: lease}
	d := c
	d.nonce = "2"
	got := r.s.txn([]create{c, d})
	if !got[0].ok || !got[1].ok || got[0].rev != got[1].rev {
		t.Errorf("two creates of one name: %+v", got)
	}
	if again := r.s.txn([]create{c}); again[0].ok || again[0].held == nil {
		t.Errorf("a create beside a key: %+v", again)
	}
}

func TestACreateComparesItsGuardAndItsLease(t *testing.T) {
	r := newRig(0)
	lease := r.s.grant("A", 10*time.Second)
	r.s.guards["A"] = 3
	if got := r.s.txn([]create{{client: "A", name: "x", lease: lease, guard: 2}}); got[0].ok || got[0].noLease {
		t.Errorf("an old guard: %+v", got)
	}
	if got := r.s.txn([]create{{client: "A", name: "x", lease: lease + 1, guard: 3}}); got[0].ok || !got[0].noLease {
		t.Errorf("a lease that is not there: %+v", got)
	}
	if got := r.s.txn([]create{{client: "A", name: "x", lease: lease, guard: 3}}); !got[0].ok {
		t.Errorf("everything as it should be: %+v", got)
	}
}

// TestALockCountsFromTheSharedLease: a lock that is taken late on a lease that was
// kept alive earlier has only what is left of it.
func TestALockCountsFromTheSharedLease(t *testing.T) {
	r := newRig(0)
	r.acquire(t, r.a1, "x")
	r.w.Run(3 * time.Second)
	g := r.acquire(t, r.a2, "y")
	if age := r.a2.Mono.Now().Sub(g.From); age < 3*time.Second || age > 3100*time.Millisecond {
		t.Errorf("the grant of y counts from %v ago", age)
	}
	kept, err := r.renew(t, r.a2, g)
	if age := r.a2.Mono.Now().Sub(kept.From); err != nil || age > 100*time.Millisecond {
		t.Errorf("the renewal: %v, counts from %v ago", err, age)
	}
}

// TestARoundProvesKeysAndNotTheLeaseAlone, and what becomes of it without.
func TestARoundProvesKeysAndNotTheLeaseAlone(t *testing.T) {
	for _, without := range []protocol.SharerRules{0, protocol.ShareProof} {
		r := newRig(without)
		x, y := r.acquire(t, r.a1, "x"), r.acquire(t, r.a2, "y")
		r.s.Break("x")
		_, errX := r.renew(t, r.a1, x)
		_, errY := r.renew(t, r.a2, y)
		if errors.Is(errX, authority.ErrNotHeld) == (without != 0) || errY != nil {
			t.Errorf("without %d: the key that is gone: %v; the other: %v", without, errX, errY)
		}
	}
}

// TestAnOwnLeaseEndsBesideOthers: deleted when its own time is over, although the
// lease that it shares lives, and again and again until the server has it.
func TestAnOwnLeaseEndsBesideOthers(t *testing.T) {
	r := newRig(0)
	r.acquire(t, r.a1, "x")
	y := r.acquire(t, r.a2, "y")
	for r.w.Now() < 9*time.Second {
		r.w.Run(r.w.Now() + 3*time.Second)
		if _, err := r.renew(t, r.a2, y); err != nil {
			t.Fatal(err)
		}
	}
	r.w.Net.Cut(r.a1, r.s.m)
	r.w.Run(11 * time.Second)
	if !r.s.State("x").Held {
		t.Fatal("x is gone although nobody could say so")
	}
	r.w.Net.Heal()
	r.w.Run(12500 * time.Millisecond)
	if r.s.State("x").Held || !r.s.State("y").Held {
		t.Errorf("x: %+v, y: %+v", r.s.State("x"), r.s.State("y"))
	}
}

// TestALateCreateIsNotCarriedOutOnceItIsSettled.
func TestALateCreateIsNotCarriedOutOnceItIsSettled(t *testing.T) {
	for _, without := range []protocol.SharerRules{0, protocol.ShareGuard} {
		r := newRig(without)
		r.acquire(t, r.a1, "x")
		r.s.Hold("create", 5*time.Second)
		a, ok := r.ask(r.a2, protocol.Ask{Op: protocol.OpAcquire, Name: "y", Nonce: "late", Holder: "A2"}, 3*time.Second)
		if !ok || a.Err == nil {
			t.Fatalf("without %d: the create hangs, and its answer is %+v", without, a)
		}
		r.w.Run(6 * time.Second)
		if r.s.State("y").Held != (without != 0) {
			t.Errorf("without %d: y is %+v", without, r.s.State("y"))
		}
	}
}

func TestALostLeaseIsNeverRenewedAgain(t *testing.T) {
	r := newRig(0)
	x := r.acquire(t, r.a1, "x")
	old := r.c.Lease()
	r.s.revoke(old, "by hand")
	if _, err := r.renew(t, r.a1, x); !errors.Is(err, authority.ErrNotHeld) {
		t.Fatalf("a renewal on a lease that is gone: %v", err)
	}
	if g := r.acquire(t, r.a1, "x"); g.Token <= x.Token || r.c.Lease() == old {
		t.Errorf("token %d after %d, lease %d after %d", g.Token, x.Token, r.c.Lease(), old)
	}
}

// TestARestoreDropsWhatItShould: the counter moves on, and keys only come back
// where they are told to.
func TestARestoreDropsWhatItShould(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(0)
		x := r.acquire(t, r.a1, "x")
		r.s.Save()
		if a, ok := r.ask(r.a1, protocol.Ask{Op: protocol.OpRelease, Name: "x", Grant: x.Grant}, time.Second); !ok || a.Err != nil {
			t.Fatalf("the release: %v", a.Err)
		}
		r.s.Restore(100, keep)
		if r.s.State("x").Held != keep || r.s.Revision() != int64(x.Token)+100 {
			t.Errorf("keep %v: x is %+v, revision %d", keep, r.s.State("x"), r.s.Revision())
		}
	}
}

func TestAReleaseIsOfThisVeryGrant(t *testing.T) {
	r := newRig(0)
	x := r.acquire(t, r.a1, "x")
	other := fence.Grant{Token: x.Token, Nonce: "another"}
	if a, _ := r.ask(r.a1, protocol.Ask{Op: protocol.OpRelease, Name: "x", Grant: other}, time.Second); !errors.Is(a.Err, authority.ErrNotHeld) {
		t.Errorf("the release of another grant: %v", a.Err)
	}
	if !r.s.State("x").Held {
		t.Error("x is gone")
	}
}

// TestACrashForgetsTheSession: the next process has a lease of its own, and the
// old one's keys go when their lease is over.
func TestACrashForgetsTheSession(t *testing.T) {
	r := newRig(0)
	r.acquire(t, r.a1, "x")
	r.a1.Crash()
	r.a1.Restart()
	a, ok := r.ask(r.a1, protocol.Ask{Op: protocol.OpAcquire, Name: "x", Nonce: "new", Holder: "A1"}, time.Second)
	if !ok || !errors.Is(a.Err, authority.ErrHeld) {
		t.Errorf("beside the ghost: %+v", a)
	}
	r.w.Run(10 * time.Second)
	if r.s.State("x").Held {
		t.Error("the ghost's key outlives its lease")
	}
}
