package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"pgregory.net/rapid"
)

func sharer(without SharerRules) *Sharer {
	return NewSharer(SharerConfig{Length: 10 * sec, Margin: 2 * sec, Timeout: sec, Without: without})
}

func acquireOf(id uint64, name string) Ask {
	return Ask{ID: id, Op: OpAcquire, Name: name, Nonce: name + string(rune('a'+id)), Holder: "t"}
}

// leased is a sharer that has its lease, opened at 0.
func leased(t *testing.T, without SharerRules, asks ...Ask) (*Sharer, CreateKeys) {
	t.Helper()
	s := sharer(without)
	for _, a := range asks {
		if out := s.Step(0, a); !has[Yield](out) || has[CreateKeys](out) {
			t.Fatalf("before the end of the turn: %v", out)
		}
	}
	open, ok := find[OpenLease](s.Step(0, TurnOver{}))
	if !ok {
		t.Fatal("no lease is asked for")
	}
	create, ok := find[CreateKeys](s.Step(0, LeaseOpened{Try: open.Try, Lease: 7, Guard: 3}))
	if !ok || create.Lease != 7 || create.Guard != 3 {
		t.Fatalf("%+v", create)
	}
	return s, create
}

// sharing is a sharer that holds x with token 5.
func sharing(t *testing.T, without SharerRules) (*Sharer, LeaseKey) {
	t.Helper()
	s, c := leased(t, without, acquireOf(1, "x"))
	r, ok := find[Reply](s.Step(0, KeysCreated{Try: c.Try, Results: []KeyResult{{Created: true, Token: 5}}}))
	if !ok || r.Err != nil || r.Grant.Token != 5 || r.Grant.From != 0 {
		t.Fatalf("%+v", r)
	}
	return s, LeaseKey{"x", r.Grant.Grant}
}

func renewOf(id uint64, key LeaseKey) Ask {
	return Ask{ID: id, Op: OpRenew, Name: key.Name, Grant: key.Grant}
}

// TestOneNameStandsOnceInATransaction: all its comparisons come before its first
// write.
func TestOneNameStandsOnceInATransaction(t *testing.T) {
	for _, without := range []SharerRules{0, ShareOneCreate} {
		s, c := leased(t, without, acquireOf(1, "x"), acquireOf(2, "x"), acquireOf(3, "y"))
		want := map[SharerRules]int{0: 2, ShareOneCreate: 3}[without]
		if len(c.Keys) != want {
			t.Errorf("without %d: %v", without, c.Keys)
		}
		if without != 0 {
			continue
		}
		if out := s.Step(0, acquireOf(4, "z")); has[CreateKeys](out) {
			t.Error("two transactions are under way")
		}
		out := s.Step(0, KeysCreated{Try: c.Try, Results: []KeyResult{{Created: true, Token: 5}, {Created: true, Token: 5}}})
		if next, ok := find[CreateKeys](out); !ok || len(next.Keys) != 2 {
			t.Errorf("the next transaction: %v", out)
		}
	}
}

// TestACreateWithoutAnAnswerIsSettledByAHigherGuard.
func TestACreateWithoutAnAnswerIsSettledByAHigherGuard(t *testing.T) {
	for _, without := range []SharerRules{0, ShareGuard} {
		s, c := leased(t, without, acquireOf(1, "x"))
		settle, ok := find[SettleKeys](s.Step(at(sec), Tick{}))
		if !ok || (settle.Guard == c.Guard+1) != (without == 0) {
			t.Fatalf("without %d: %+v", without, settle)
		}
		again, _ := find[SettleKeys](s.Step(at(2*sec), Tick{}))
		if without == 0 && again.Guard <= settle.Guard {
			t.Errorf("a second look: %+v", again)
		}
		r, ok := find[Reply](s.Step(at(2*sec), KeysCreated{Try: again.Try, Results: make([]KeyResult, 1)}))
		if !ok || !errors.Is(r.Err, ErrNotCreated) {
			t.Fatalf("not there: %+v", r)
		}
		if out := s.Step(at(2*sec), KeysCreated{Try: c.Try, Results: []KeyResult{{Created: true, Token: 5}}}); has[Reply](out) {
			t.Errorf("an answer after it was settled: %v", out)
		}
		s.Step(at(2*sec), acquireOf(2, "x"))
		if next, _ := find[CreateKeys](s.Step(at(2*sec), TurnOver{})); without == 0 && next.Guard != again.Guard {
			t.Errorf("the next create's guard is %d, the raised one %d", next.Guard, again.Guard)
		}
	}
}

// TestALockIsProvenByItsKey, and not by an answered keep-alive.
func TestALockIsProvenByItsKey(t *testing.T) {
	for _, without := range []SharerRules{0, ShareProof} {
		s, x := sharing(t, without)
		s.Step(at(3*sec), renewOf(2, x))
		keep, ok := find[KeepLease](s.Step(at(3*sec), TurnOver{}))
		if !ok || keep.Lease != 7 {
			t.Fatal("no round")
		}
		r, _ := find[Reply](s.Step(at(ms(3100)), LeaseKept{Round: keep.Round, Alive: true}))
		if errors.Is(r.Err, authority.ErrNotHeld) != (without == 0) {
			t.Errorf("without %d, its key is gone: %+v", without, r)
		}
		if without != 0 && r.Grant.From != at(3*sec) {
			t.Errorf("counts from %v", r.Grant.From)
		}
	}
	s, x := sharing(t, 0)
	s.Step(at(3*sec), renewOf(2, x))
	keep, _ := find[KeepLease](s.Step(at(3*sec), TurnOver{}))
	r, _ := find[Reply](s.Step(at(ms(3100)), LeaseKept{Round: keep.Round, Alive: true, Keys: []LeaseKey{x}}))
	if r.Err != nil || r.Grant.From != at(3*sec) {
		t.Errorf("proven: %+v", r)
	}
}

// TestARoundsAnswerIsItsOwn: what comes late, from a stream that was given up, is
// not taken for the next one's.
func TestARoundsAnswerIsItsOwn(t *testing.T) {
	s, x := sharing(t, 0)
	s.Step(at(3*sec), renewOf(2, x))
	first, _ := find[KeepLease](s.Step(at(3*sec), TurnOver{}))
	s.Step(at(ms(3500)), renewOf(3, x))
	if out := s.Step(at(ms(3500)), TurnOver{}); has[KeepLease](out) {
		t.Fatalf("two rounds are under way: %v", out)
	}
	second, ok := find[KeepLease](s.Step(at(4*sec), Tick{}))
	if !ok || second.Round == first.Round {
		t.Fatal("a silent stream is not given up")
	}
	if out := s.Step(at(ms(4100)), LeaseKept{Round: first.Round, Alive: true, Keys: []LeaseKey{x}}); has[Reply](out) {
		t.Errorf("the first round's answer: %v", out)
	}
	if r, _ := find[Reply](s.Step(at(ms(4200)), LeaseKept{Round: second.Round, Alive: true, Keys: []LeaseKey{x}})); r.ID != 3 || r.Grant.From != at(4*sec) {
		t.Errorf("the second round's answer: %+v", r)
	}
}

// TestALockHasATimeOfItsOwn: it is deleted when that is over, a margin after its
// stop time, and again and again until it is gone.
func TestALockHasATimeOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		without SharerRules
		at      time.Duration
	}{{0, 10 * sec}, {ShareWorkReturn, 8 * sec}} {
		s, x := sharing(t, c.without)
		if out := s.Step(at(c.at-1), Tick{}); has[DropKey](out) {
			t.Errorf("without %d: too early: %v", c.without, out)
		}
		d, ok := find[DropKey](s.Step(at(c.at), Tick{}))
		if !ok || d.Key != x || !d.Lapse {
			t.Fatalf("without %d, at %v: %+v", c.without, c.at, d)
		}
		again, ok := find[DropKey](s.Step(at(c.at+sec), Tick{}))
		if !ok || again.Try != d.Try {
			t.Errorf("no answer: %+v", again)
		}
		s.Step(at(c.at+sec), KeyDropped{Try: d.Try, Found: true})
		if out := s.Step(at(c.at+5*sec), Tick{}); has[DropKey](out) || s.Locks() != 0 {
			t.Errorf("it is gone: %v", out)
		}
	}
	s, _ := sharing(t, ShareOwnTime)
	if out := s.Step(at(60*sec), Tick{}); has[DropKey](out) {
		t.Errorf("without a time of its own: %v", out)
	}
}

// TestAKeyThatNobodyKnowsIsDeleted, but not one that is being created.
func TestAKeyThatNobodyKnowsIsDeleted(t *testing.T) {
	s, x := sharing(t, 0)
	s.Step(at(3*sec), acquireOf(2, "y"))
	s.Step(at(3*sec), renewOf(3, x))
	keep, _ := find[KeepLease](s.Step(at(3*sec), TurnOver{}))
	y := LeaseKey{"y", fence.Grant{Token: 6, Nonce: acquireOf(2, "y").Nonce}}
	z := LeaseKey{"z", fence.Grant{Token: 4, Nonce: "old"}}
	out := s.Step(at(3*sec), LeaseKept{Round: keep.Round, Alive: true, Keys: []LeaseKey{x, y, z}})
	var dropped []LeaseKey
	for _, e := range out {
		if d, ok := e.(DropKey); ok {
			dropped = append(dropped, d.Key)
		}
	}
	if len(dropped) != 1 || dropped[0] != z {
		t.Errorf("dropped %v, want %v", dropped, z)
	}
}

// TestALostLeaseIsNotRenewed: what is asked for next lies under a new one.
func TestALostLeaseIsNotRenewed(t *testing.T) {
	s, x := sharing(t, 0)
	s.Step(at(3*sec), renewOf(2, x))
	keep, _ := find[KeepLease](s.Step(at(3*sec), TurnOver{}))
	if r, _ := find[Reply](s.Step(at(3*sec), LeaseKept{Round: keep.Round})); !errors.Is(r.Err, authority.ErrNotHeld) || s.Lease() != 0 {
		t.Fatalf("%+v", r)
	}
	s.Step(at(4*sec), acquireOf(3, "y"))
	if out := s.Step(at(4*sec), TurnOver{}); !has[OpenLease](out) {
		t.Errorf("%v", out)
	}
	s.Step(at(4*sec), LeaseOpened{Try: 99, Lease: 8})
	if s.Lease() != 0 {
		t.Error("an answer to another try")
	}

	s, c := leased(t, 0, acquireOf(1, "x"))
	r, _ := find[Reply](s.Step(0, KeysCreated{Try: c.Try, Results: []KeyResult{{NoLease: true}}}))
	if !errors.Is(r.Err, ErrNotCreated) || s.Lease() != 0 {
		t.Errorf("no lease under a create: %+v", r)
	}
}

// TestALockOnAnOldLeaseHasWhatIsLeftOfIt, and a lease that stood idle is not used.
func TestALockOnAnOldLeaseHasWhatIsLeftOfIt(t *testing.T) {
	s, _ := sharing(t, 0)
	s.Step(at(4*sec), acquireOf(2, "y"))
	c, _ := find[CreateKeys](s.Step(at(4*sec), TurnOver{}))
	r, _ := find[Reply](s.Step(at(4*sec), KeysCreated{Try: c.Try, Results: []KeyResult{{Created: true, Token: 6}}}))
	if r.Grant.From != 0 || r.Grant.Length != 10*sec {
		t.Errorf("%+v", r.Grant)
	}
	s, x := sharing(t, 0)
	d, _ := find[DropKey](s.Step(at(sec), Ask{ID: 2, Op: OpRelease, Name: "x", Grant: x.Grant}))
	if r, _ := find[Reply](s.Step(at(sec), KeyDropped{Try: d.Try, Found: true})); r.ID != 2 || r.Err != nil || d.Lapse {
		t.Errorf("released: %+v, %+v", d, r)
	}
	s.Step(at(4*sec), acquireOf(3, "y"))
	if out := s.Step(at(4*sec), TurnOver{}); !has[OpenLease](out) {
		t.Errorf("on an idle lease: %v", out)
	}
}

func TestASharersSettings(t *testing.T) {
	good := SharerConfig{Length: 10 * sec, Margin: 2 * sec, Timeout: sec}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []SharerConfig{{}, {Length: 10 * sec, Margin: 10 * sec, Timeout: sec}, {Length: 10 * sec, Timeout: 6 * sec}, {Length: 10 * sec, Margin: -1, Timeout: sec}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestLocksUnderASharedLease, in random worlds with lost and late messages, pauses
// and keys that are deleted by hand; without each rule a world breaks.
func TestLocksUnderASharedLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if w := shareWorld(rapid.Uint64().Draw(t, "seed"), 0); w.wrong != "" {
			t.Fatal(w.story())
		}
	})
	for _, without := range []SharerRules{ShareOwnTime, ShareWorkReturn, ShareGuard, ShareProof, ShareOneCreate, ShareOneRound, ShareGuard | ShareUnknown} {
		seed, w := firstBroken(shareWorld, without, 3000)
		if w == nil {
			t.Errorf("without rules %d no world breaks", without)
			continue
		}
		t.Logf("without rules %d, world %d: %s", without, seed, w.wrong)
	}
}

func tapeSharer(t *testing.T, tape *tape) {
	s := sharer(0)
	x := LeaseKey{"x", fence.Grant{Token: 5, Nonce: acquireOf(1, "x").Nonce}}
	old := LeaseKey{"z", fence.Grant{Token: 4, Nonce: "old"}}
	for _, c := range []struct {
		at time.Duration
		ev Event
	}{
		{0, acquireOf(1, "x")}, {0, acquireOf(2, "x")}, {0, TurnOver{}},
		{0, LeaseOpened{Try: 1, Lease: 7}},
		{sec, Tick{}}, // the transaction has no answer
		{sec, KeysCreated{Try: 3, Results: []KeyResult{{Created: true, Token: 5}}}},
		{sec, KeysCreated{Try: 4, Results: []KeyResult{{Held: authority.State{Name: "x", Held: true, Grant: x.Grant}}}}},
		{3 * sec, renewOf(3, x)}, {3 * sec, TurnOver{}},
		{3 * sec, LeaseKept{Round: 1, Alive: true, Keys: []LeaseKey{x, old}}},
		{4 * sec, Tick{}},
		{4 * sec, KeyDropped{Try: 5, Found: true}},
		{13 * sec, Tick{}},
	} {
		tape.record(at(c.at), "sharer", c.ev, s.Step(at(c.at), c.ev))
	}
	if s.Locks() != 0 {
		t.Error("the lock outlives its time")
	}
}
